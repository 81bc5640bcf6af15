"""Finding, claiming and clearing the directories that datasets are written to."""

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.kit.small_datasets import files_in, write_ints

from mdstorm_backend import errors
from mdstorm_backend.format.shard_info import CLAIM_NAME
from mdstorm_backend.storage import Location
from mdstorm_backend.write.directories import Claim, clear_target, find_targets


def clear(directory: str | Path, *, exist_ok: bool = True) -> None:
    clear_target(Location.of(str(directory)), exist_ok=exist_ok, first_shard="shard.00000.mds")


def test_remote_url_with_keep_local_gets_a_new_local_directory() -> None:
    kept = find_targets("memory://c", True, None)
    assert kept.local is not None
    assert os.listdir(kept.local) == []
    os.rmdir(kept.local)


@pytest.mark.parametrize("out", ["", (), ("a",), ("a", "b", "c"), None, 5, ("memory://x", "a")])
def test_out_must_be_a_path_or_a_pair(out: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="Invalid `out` argument"):
        find_targets(out, False, None)


def test_local_and_remote_in_a_pair_must_differ(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="same directory"):
        find_targets((str(tmp_path), tmp_path.as_uri()), True, None)


@pytest.mark.parametrize("options", [{}, {"compression": "zstd"}, {"size_limit": 300}])
def test_dataset_is_replaced_on_request(tmp_path: Path, options: dict[str, Any]) -> None:
    write_ints(tmp_path, range(50), **options)
    (tmp_path / "_mdstorm").write_text("our marker")
    clear(tmp_path)
    assert files_in(tmp_path) == []


def test_removing_a_merged_dataset_removes_its_parts(tmp_path: Path) -> None:
    write_ints(tmp_path / "a" / "b")
    index = json.loads((tmp_path / "a/b/index.json").read_text())
    index["shards"][0]["raw_data"]["basename"] = "a/b/shard.00000.mds"
    (tmp_path / "index.json").write_text(json.dumps(index))
    clear(tmp_path)
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == ["a"]


@pytest.mark.parametrize("foreign", ["notes.txt", "shard.00001.mds", "deep/notes.txt"])
def test_files_outside_the_index_are_never_removed(tmp_path: Path, foreign: str) -> None:
    write_ints(tmp_path)
    (tmp_path / foreign).parent.mkdir(exist_ok=True)
    (tmp_path / foreign).write_text("mine")
    before = files_in(tmp_path)
    with pytest.raises(errors.DatasetExistsError, match="nothing was removed") as caught:
        clear(tmp_path)
    assert foreign in str(caught.value)
    assert files_in(tmp_path) == before


@pytest.mark.parametrize("content", [b"", b"{}", b'{"version": 2, "shards": [{}]}'])
def test_directory_without_a_readable_index_is_never_emptied(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "index.json").write_bytes(content)
    with pytest.raises(errors.DatasetExistsError, match="nothing was removed"):
        clear(tmp_path)
    assert files_in(tmp_path) == ["index.json"]


#: A program that writes two shards and is then killed.
_KILLED = """
import os, signal, sys
from mdstorm_backend.write.mds_writer import MDSWriter
writer = MDSWriter(columns={"n": "int"}, out=sys.argv[1], size_limit=300)
for number in range(50):
    writer.write({"n": number})
while not {"shard.00000.mds", "shard.00001.mds"} <= {*os.listdir(sys.argv[1])}:
    pass  # threads write the shards
os.kill(os.getpid(), signal.SIGKILL)
"""


def run_killed(program: str, out: Path) -> None:
    done = subprocess.run([sys.executable, "-c", program, str(out)], check=False)
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("count", "listed"), [(3, "a, b, c, which"), (4, "a, b, c and 1 more, which")]
)
def test_error_lists_up_to_three_files_of_others(count: int, listed: str, tmp_path: Path) -> None:
    for name in "abcd"[:count]:
        (tmp_path / name).touch()
    with pytest.raises(errors.DatasetExistsError, match=f"holds {listed} belong to no dataset"):
        write_ints(tmp_path, exist_ok=True)


def test_files_left_by_a_killed_writer_are_replaced_on_request(tmp_path: Path) -> None:
    run_killed(_KILLED, tmp_path)
    (tmp_path / f"shard.00002.mds.{'0' * 32}.tmp").write_bytes(b"half")
    (tmp_path / "notes.txt").write_text("mine")
    before = files_in(tmp_path)
    assert {"_mdstorm_writing", "shard.00000.mds", "shard.00001.mds"} <= set(before)
    with pytest.raises(errors.DatasetExistsError, match=r"holds notes\.txt, .*nothing was removed"):
        write_ints(tmp_path, exist_ok=True)
    assert files_in(tmp_path) == before
    (tmp_path / "notes.txt").unlink()
    with pytest.raises(errors.DatasetExistsError, match="holds the remains of a killed writer"):
        write_ints(tmp_path)
    write_ints(tmp_path, exist_ok=True)
    assert files_in(tmp_path) == ["index.json", "shard.00000.mds"]


#: A program that removes the index of a dataset to be replaced, and is then killed.
_KILLED_REPLACING = """
import os, signal, sys
from mdstorm_backend.write.mds_writer import MDSWriter
from mdstorm_backend.storage import Location
remove = Location.remove
def remove_one(self, name):
    remove(self, name)
    os.kill(os.getpid(), signal.SIGKILL)
Location.remove = remove_one
MDSWriter(columns={"n": "int"}, out=sys.argv[1], exist_ok=True)
"""


def test_writer_killed_while_replacing_a_dataset_can_start_again(
    tmp_path: Path,
) -> None:
    write_ints(tmp_path, range(50), size_limit=300)
    before = set(files_in(tmp_path))
    run_killed(_KILLED_REPLACING, tmp_path)
    assert set(files_in(tmp_path)) == before - {"index.json"} | {"_mdstorm_writing"}
    write_ints(tmp_path, exist_ok=True)
    assert files_in(tmp_path) == ["index.json", "shard.00000.mds"]


def test_file_as_output_directory_raises_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for exist_ok in (True, False):
        with pytest.raises(errors.DatasetExistsError, match=r"notes\.txt is a file: choose a dir"):
            clear(tmp_path / "notes.txt", exist_ok=exist_ok)


def test_index_with_files_outside_its_directory_raises_error(tmp_path: Path) -> None:
    target, other = tmp_path / "target", tmp_path / "other"
    write_ints(target)
    write_ints(other)
    index = (target / "index.json").read_text()
    (target / "index.json").write_text(index.replace("shard.00000", "../other/shard.00000"))
    with pytest.raises(errors.DatasetExistsError):
        clear(target)
    assert files_in(other) == ["index.json", "shard.00000.mds"]


def test_remote_directory_with_other_files_accepts_a_dataset() -> None:
    location = Location.of("memory://beside")
    location.write("notes.txt", [b"mine"])
    location.write("val/index.json", [b"{}"])
    write_ints("memory://beside")
    with pytest.raises(errors.DatasetExistsError):
        write_ints("memory://beside")
    write_ints("memory://beside", range(5), exist_ok=True)
    assert location.list_names() == ["index.json", "notes.txt", "shard.00000.mds", "val/index.json"]


def test_remote_directory_with_a_shard_without_index_raises_error() -> None:
    location = Location.of("memory://leftover")
    location.write("shard.00000.mds", [b"somebody's"])
    for exist_ok in (True, False):
        with pytest.raises(errors.DatasetExistsError, match=r"shard\.00000\.mds.* yourself"):
            write_ints("memory://leftover", exist_ok=exist_ok)
    assert bytes(location.read("shard.00000.mds")) == b"somebody's"


def take(directory: Path) -> Claim | None:
    try:
        return Claim(Location.of(str(directory)))
    except errors.DatasetExistsError:
        return None


def test_only_one_of_many_concurrent_writers_claims_the_directory(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        claims = list(pool.map(lambda _: take(tmp_path), range(40)))
    assert sum(one is not None for one in claims) == 1
    assert (tmp_path / CLAIM_NAME).exists()


def test_releasing_a_claim_keeps_the_next_writers_claim(tmp_path: Path) -> None:
    first = Claim(Location.of(str(tmp_path)))
    (tmp_path / CLAIM_NAME).unlink()
    second = Claim(Location.of(str(tmp_path)))
    first.release()
    assert take(tmp_path) is None, second


def test_unwritable_directory_raises_error(tmp_path: Path) -> None:
    with pytest.raises(errors.WriteError, match="cannot be written to") as caught:
        Claim(Location.of(str(tmp_path / "none")))
    assert not isinstance(caught.value, errors.DatasetExistsError)


#: A program that claims a directory, then forks a process that exits normally.
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


def test_forked_child_does_not_release_the_directory(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", _FORKED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == repr([CLAIM_NAME])
    assert list(tmp_path.iterdir()) == []


def test_directories_without_file_locks_are_not_claimed(
    tmp_path: Path, without_locks: None
) -> None:
    first, second = Claim(Location.of(str(tmp_path))), Claim(Location.of(str(tmp_path)))
    assert list(tmp_path.iterdir()) == []
    first.release()
    second.release()
