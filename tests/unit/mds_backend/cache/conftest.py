"""Each cache test has its own default cache directory and remote storage."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.mds_backend.cache.shards import RemoteFileSystem, Storage, without_pauses


@pytest.fixture(autouse=True)
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Storage]:
    """A remote store, which fails only if the test adds faults."""
    monkeypatch.setenv("MDSTORM_CACHE_DIR", str(tmp_path / "default cache"))
    without_pauses(monkeypatch)
    RemoteFileSystem.reset()
    yield RemoteFileSystem
    RemoteFileSystem.reset()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The directory of the remote dataset."""
    return tmp_path / "remote" / "numbers"


@pytest.fixture
def local(tmp_path: Path) -> Path:
    """A cache directory other than the default."""
    return tmp_path / "local"
