"""The index is read with patience, and a copy of it stays beside the shards."""

import logging
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.mds_backend.cache.shards import Fault, Storage, disconnected, refused, remote
from tests.mds_backend.small_datasets import write_ints

from mdstorm_backend import StreamingDataset, errors
from mdstorm_backend.cache import CacheOptions, read_index


@pytest.fixture
def index(source: Path) -> Path:
    source.mkdir(parents=True)
    path = source / "index.json"
    path.write_text('{"shards": [], "version": 2}')
    return path


def read(source: Path, **options: Any) -> bytes:
    return read_index(remote(source), CacheOptions(**options))[0]


def test_failures_that_stay_are_named(index: Path, storage: Storage) -> None:
    storage.faults += [disconnected] * 2
    with pytest.raises(errors.StorageError, match=r"index\.json cannot be read after 2 attempts"):
        read(index.parent)
    storage.faults += [refused]
    with pytest.raises(errors.CredentialsError, match="Access Denied"):
        read(index.parent)
    index.unlink()
    for _ in range(2):
        with pytest.raises(errors.DatasetNotFoundError, match=r"has no index\.json"):
            read(index.parent)
        index.mkdir(exist_ok=True)


@pytest.mark.parametrize("fault", [disconnected, refused])
def test_the_copy_serves_while_the_storage_is_away_or_gives_no_access(
    fault: Fault, index: Path, local: Path, storage: Storage, caplog: pytest.LogCaptureFixture
) -> None:
    read(index.parent, directory=str(local))
    storage.faults += [fault]
    with caplog.at_level(logging.WARNING):
        assert read(index.parent, directory=str(local), retry=1) == index.read_bytes()
    assert "reading the copy of the index" in caplog.text


def test_a_filled_directory_is_read_where_the_dataset_is_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    remote, local = str(tmp_path / "remote"), str(tmp_path / "local")
    write_ints(remote, range(50), size_limit=300)
    for _ in range(2):  # filled by this cache, and by another reader
        dataset = StreamingDataset(remote=remote, local=local, batch_size=1)
        assert [sample["n"] for sample in dataset] == list(range(50))
        shutil.rmtree(remote, ignore_errors=True)
        dataset = StreamingDataset(remote=remote, local=local, batch_size=1)
        assert [sample["n"] for sample in dataset] == list(range(50))
        assert "there is no dataset" in caplog.text
        shutil.rmtree(f"{local}/.mdstorm", ignore_errors=True)
    shutil.rmtree(local)
    with pytest.raises(errors.DatasetNotFoundError, match="there is no dataset"):
        StreamingDataset(remote=remote, local=local, batch_size=1)


def test_the_copy_of_another_dataset_does_not_serve(index: Path, local: Path) -> None:
    read(index.parent, directory=str(local))
    with pytest.raises(errors.DatasetNotFoundError, match=r"other: it has no index\.json"):
        read(index.parent / "other", directory=str(local))


def test_a_new_state_of_the_dataset_replaces_our_copy(index: Path, local: Path) -> None:
    read(index.parent, directory=str(local))
    index.write_text('{"shards": [], "version": 2, "mdstorm": {}}')
    assert read(index.parent, directory=str(local)) == index.read_bytes()
    assert (local / "index.json").read_bytes() == index.read_bytes()


def test_the_index_of_another_dataset_that_somebody_put_there_stays(
    index: Path, local: Path
) -> None:
    local.mkdir()
    (local / "index.json").write_text("no JSON")
    with pytest.raises(errors.InvalidArgumentError, match=r"another dataset.*Choose another dir"):
        read(index.parent, directory=str(local))
    assert (local / "index.json").read_text() == "no JSON"
