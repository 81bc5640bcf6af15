"""A disk where files cannot be locked."""

import errno
from pathlib import Path

import pytest

from mdstorm_backend.write import directories


@pytest.fixture
def without_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make local disks refuse locks, as some network file systems do."""

    def refuse(path: str) -> None:
        Path(path).touch()  # opening a file creates it, before locking fails
        raise OSError(errno.ENOLCK, "No locks available", path)

    monkeypatch.setattr(directories, "try_lock", refuse)
