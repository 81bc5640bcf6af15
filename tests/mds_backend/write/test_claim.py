import errno
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mdstorm_backend.errors import DatasetExistsError, WriteError
from mdstorm_backend.format.shard_info import CLAIM_NAME
from mdstorm_backend.storage import Location
from mdstorm_backend.write import directories
from mdstorm_backend.write.directories import Claim


def take(directory: Path) -> Claim | None:
    try:
        return Claim(Location.of(str(directory)))
    except DatasetExistsError:
        return None


def test_of_many_that_come_at_once_one_gets_the_directory(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        claims = list(pool.map(lambda _: take(tmp_path), range(40)))
    assert sum(one is not None for one in claims) == 1
    assert (tmp_path / CLAIM_NAME).exists()


def test_giving_back_leaves_the_claim_of_the_next(tmp_path: Path) -> None:
    first = Claim(Location.of(str(tmp_path)))
    (tmp_path / CLAIM_NAME).unlink()
    second = Claim(Location.of(str(tmp_path)))
    first.release()
    assert take(tmp_path) is None, second


def test_a_directory_that_cannot_be_written_to_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match="cannot be written to") as caught:
        Claim(Location.of(str(tmp_path / "none")))
    assert not isinstance(caught.value, DatasetExistsError)


#: Takes a directory, and forks a process that ends as any other.
_FORKED = """
import os, sys
from mdstorm_backend.storage import Location
from mdstorm_backend.write.directories import Claim
claim = Claim(Location.of(sys.argv[1]))
process = os.fork()
if process:
    os.waitpid(process, 0)
    print(os.listdir(sys.argv[1]))
"""


def test_a_forked_process_does_not_give_the_directory_back(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", _FORKED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == repr([CLAIM_NAME])
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_without_locks_has_no_claims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> None:
        Path(path).touch()  # as opening does, before locking fails
        raise OSError(errno.ENOLCK, "No locks available", path)

    monkeypatch.setattr(directories, "try_lock", refuse)
    first, second = Claim(Location.of(str(tmp_path))), Claim(Location.of(str(tmp_path)))
    assert list(tmp_path.iterdir()) == []
    first.release()
    second.release()
