"""Writing files."""

import os
import stat
from pathlib import Path

import pytest

from mdstorm_migrate.run.together import WriteError, write_file


def test_mode_and_owner_stay_and_nothing_is_left_beside(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    path.chmod(0o751)
    if os.geteuid() == 0:
        os.chown(path, 1234, 4321)
    before = path.stat()
    write_file(path, b"old", b"new")
    after = path.stat()
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(after.st_mode) == 0o751
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)
    assert os.listdir(tmp_path) == ["a.py"]


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    target = tmp_path / "there" / "a.py"
    target.write_bytes(b"old")
    link = tmp_path / "b.py"
    link.symlink_to("there/a.py")
    write_file(link, b"old", b"new", backup=".orig")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert (tmp_path / "there" / "a.py.orig").read_bytes() == b"old"


def test_a_file_that_somebody_else_changes_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"newer")
    with pytest.raises(WriteError, match="changed by another program"):
        write_file(path, b"old", b"new")
    assert path.read_bytes() == b"newer"


def test_a_write_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WriteError, match="No space left"):
        write_file(path, b"old", b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.py"]


def test_a_file_that_is_gone_is_reported(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match="No such file"):
        write_file(tmp_path / "a.py", b"old", b"new")
