"""What a job that was killed leaves in the parent cache directory, and who removes it."""

import os
import signal
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.programs import SESSION, run_program
from tests.servers.s3 import BUCKET, S3Server

from mdstorm._spark.copies import delete_abandoned, unfinished_copies
from mdstorm.cli import main
from mdstorm_backend import open_dataset
from mdstorm_backend.errors import DatasetNotFoundError
from mdstorm_backend.storage import Location
from mdstorm_backend.write.commit import mark_directory
from mdstorm_backend.write.directories import Claim

NAME = "20260102030405-appid-local-1-0e1c6d5e-9d5c-4b8e-8c44-d5b7b0f2a1aa"
SHARD = "part-00000-0123abcd-0.00000.mds"

#: The driver is killed when some of the four tasks have finished.
KILLED = (
    SESSION
    + """
import glob, signal, sys, time
from mdstorm.spark import make_spark_converter

parent, finished, driver = sys.argv[1], int(sys.argv[2]), os.getpid()

def read(batches):
    from pyspark import TaskContext
    if TaskContext.get().partitionId() == 3:
        while len(glob.glob(parent + "/*/part-*.mds")) < finished:
            time.sleep(0.01)
        os.kill(driver, signal.SIGKILL)
    yield from batches

df = builder.getOrCreate().range(0, 4000, 1, 4)
make_spark_converter(df.mapInArrow(read, "id long"), parent_cache_dir_url="file://" + parent)
"""
)

CONVERTED = (
    SESSION
    + """
import sys
from mdstorm.spark import make_spark_converter
df = builder.getOrCreate().range(5)
make_spark_converter(df, parent_cache_dir_url="file://" + sys.argv[1], keep=True)
"""
)


def grow_old(directory: Path) -> None:
    for path in directory.iterdir():
        os.utime(path, (1e9, 1e9))


def begun(parent: Path, name: str = NAME) -> Location:
    """A directory as a job leaves it that was killed long ago."""
    location = Location.of(str(parent / name))
    mark_directory(location)
    location.write(SHARD, [b"x" * 100])
    grow_old(parent / name)
    return location


def test_the_next_job_removes_what_is_ours_and_a_day_old(tmp_path: Path) -> None:
    old = begun(tmp_path)
    fresh = begun(tmp_path, NAME.replace("-local-", "-fresh-"))
    fresh.write(SHARD, [b"x"])
    busy = begun(tmp_path, NAME.replace("-local-", "-busy-"))
    claim = Claim(busy)
    mixed = begun(tmp_path, NAME.replace("-local-", "-mixed-"))
    mixed.write("notes.txt", [b"mine"])
    grow_old(Path(mixed.path))
    written = begun(tmp_path, NAME.replace("-local-", "-written-"))
    written.write("index.json", [b"{}"])
    others = begun(tmp_path, "conversion-of-mine")
    unmarked = begun(tmp_path, NAME.replace("-local-", "-unmarked-"))
    unmarked.remove("_mdstorm")

    delete_abandoned(f"file://{tmp_path}")

    assert old.list_names() == []
    assert not Path(old.path).exists()
    assert mixed.list_names() == ["notes.txt"]
    for kept in (fresh, busy, written, others, unmarked):
        assert SHARD in kept.list_names(), kept.url
    assert [one.directory for one in unfinished_copies(str(tmp_path))] == [fresh.path]
    claim.release()


def test_the_next_job_removes_it_from_an_object_store(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("s3fs")
    with closing(S3Server()) as server:
        for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(variable, "any")
        monkeypatch.setenv("S3_ENDPOINT_URL", server.url)
        old, fresh = NAME, NAME.replace("-local-", "-fresh-")
        for name in (old, fresh):
            directory = Location.of(f"s3://{BUCKET}/cache/{name}")
            mark_directory(directory)
            directory.write(SHARD, [b"x"])
        server.grow_old(f"cache/{old}/")
        delete_abandoned(f"s3://{BUCKET}/cache")
        assert set(server.objects("cache/")) == {f"{fresh}/{SHARD}", f"{fresh}/_mdstorm"}


def test_the_command_lists_and_clears_it(tmp_path: Path) -> None:
    begun(tmp_path)
    directory = ("--directory", str(tmp_path))
    listed = CliRunner().invoke(main, ["cache", "ls", *directory], env={"COLUMNS": "300"})
    (row,) = (line for line in listed.output.splitlines() if NAME in line)
    assert row.split()[:5] == ["unfinished", "job", "1", "100", "B"]
    kept = CliRunner().invoke(main, ["cache", "clear", "file:///elsewhere", *directory])
    assert "nothing is cached" in kept.output
    cleared = CliRunner().invoke(main, ["cache", "clear", "--yes", *directory])
    assert cleared.stdout == "removed 100 B\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
@pytest.mark.parametrize("finished", [0, 3])
def test_a_job_that_is_killed_is_seen_and_removed_by_a_later_one(
    finished: int, tmp_path: Path
) -> None:
    parent = tmp_path / "cache"
    done = run_program(KILLED, parent, finished, cwd=tmp_path, expect_success=False)
    assert done.returncode == -signal.SIGKILL
    (left,) = unfinished_copies(str(parent))
    assert left.shards >= finished
    with pytest.raises(DatasetNotFoundError, match="is not finished, or was killed"):
        open_dataset(left.directory)

    run_program(CONVERTED, parent, cwd=tmp_path)
    assert Path(left.directory).exists()
    grow_old(Path(left.directory))
    run_program(CONVERTED, parent, cwd=tmp_path)
    assert not Path(left.directory).exists()
    assert len(list(parent.iterdir())) == 2
