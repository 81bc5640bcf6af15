"""Copies are removed or kept when the process ends or is killed."""

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.kit.programs import SESSION, run_program
from tests.kit.servers.azure import CONTAINER, AzureServer
from tests.kit.servers.gcs import GoogleServer
from tests.kit.servers.s3 import BUCKET, S3Server

from mdstorm._spark import unfinished_copies
from mdstorm._spark.deletion import delete_abandoned
from mdstorm.cli import main
from mdstorm_backend import open_dataset
from mdstorm_backend.errors import DatasetNotFoundError
from mdstorm_backend.storage import Location
from mdstorm_backend.write.directories import Claim
from mdstorm_backend.write.job_files import mark_directory

CONVERT = (
    SESSION
    + """
import os, sys
from mdstorm.spark import make_spark_converter
from mdstorm.spark.spark_dataset_converter import register_delete_dir_handler

spark = builder.getOrCreate()
parent = "file://" + sys.argv[1]
converter = make_spark_converter(spark.range(5), parent_cache_dir_url=parent)
assert os.path.isdir(converter.cache_dir_url[len("file://"):])
"""
)

KEPT = """
def convert(rows, **asked):
    return make_spark_converter(spark.range(rows), parent_cache_dir_url=parent, **asked)

kept = [convert(6, keep=True), convert(7, cache_key="seven"), convert(8), convert(9)]
assert convert(8, keep=True).cache_dir_url == kept[2].cache_dir_url
assert convert(9, cache_key="nine").cache_dir_url == kept[3].cache_dir_url
convert(10, cache_key="ten", keep=False)
spark.stop()
spark = builder.getOrCreate()
assert convert(5).cache_dir_url == converter.cache_dir_url  # it outlives its session
print(*[converter.cache_dir_url for converter in kept])
"""


@pytest.mark.long
def test_copies_with_keep_or_cache_key_survive_process(tmp_path: Path) -> None:
    done = run_program(CONVERT + KEPT, tmp_path / "cache", cwd=tmp_path)
    assert "Delete cache data" not in done.stderr
    expected = {Path(url.removeprefix("file://")) for url in done.stdout.split()}
    assert set((tmp_path / "cache").glob("*-appid-*")) == expected
    assert len(expected) == 4
    assert all((directory / "index.json").is_file() for directory in expected)


#: This program does not need Spark: any directory with the marker file counts as a copy.
DOOMED = """
import os, sys, weakref
from mdstorm._spark import delete_dir
from mdstorm._spark.deletion import delete_at_exit
from mdstorm.spark.spark_dataset_converter import register_delete_dir_handler
from mdstorm_backend.write.job_files import mark_directory
from mdstorm_backend.storage import Location

def doomed(name):
    location = Location.of(f"{sys.argv[1]}/{name}")
    mark_directory(location)
    # Clients are closed this way, and must stay open until the copy is removed.
    weakref.finalize(location, lambda: print(os.getpid() == main, os.path.isdir(location.path)))
    delete_at_exit(location.url)
    return location.url

main = os.getpid()
"""


def test_copies_are_removed_at_exit_of_the_process_that_made_them(tmp_path: Path) -> None:
    end = """
kept = doomed("kept until the end")
delete_dir(doomed("deleted"))
child = os.fork()
if child == 0:
    doomed("of the fork")
    sys.exit(0)
os.waitpid(child, 0)
print(os.listdir(sys.argv[1]))
"""
    done = run_program(DOOMED + end, tmp_path / "copies", cwd=tmp_path)
    ended = [*["False False"] * 2, "False True", *["True False"] * 2]
    assert sorted(done.stdout.splitlines()) == [*ended, "['kept until the end']"]
    assert list((tmp_path / "copies").iterdir()) == []
    assert "Delete cache data" not in done.stderr


def test_delete_handler_runs_after_uncaught_exception_and_its_errors_are_logged(
    tmp_path: Path,
) -> None:
    end = """
import logging
logging.basicConfig()
urls = [doomed("first"), doomed("second")]
register_delete_dir_handler(lambda url: print("deleting", url) if url == urls[1] else 1 // 0)
raise ValueError("uncaught")
"""
    done = run_program(DOOMED + end, tmp_path, cwd=tmp_path, expect_success=False)
    assert done.returncode == 1
    assert f"deleting file://{tmp_path}/second\n" in done.stdout
    message = f"Delete cache data file://{tmp_path}/first failed due to ZeroDivisionError"
    assert message in done.stderr
    assert done.stderr.count("Traceback") == 1
    assert {path.name for path in tmp_path.iterdir()} >= {"first", "second"}


# Python shuts down thread pools before it calls atexit handlers, but object store clients need
# thread pools.


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    pytest.importorskip("s3fs")
    with closing(S3Server()) as server:
        # Use a host name instead of an address, so that it has to be resolved.
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url.replace("127.0.0.1", "localhost"))
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "testing")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        yield f"s3://{BUCKET}/parent/copy"


@pytest.fixture
def azure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    pytest.importorskip("adlfs")
    with closing(AzureServer(tmp_path)) as server:
        monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", server.connection_string())
        yield f"az://{CONTAINER}/parent/copy"


@pytest.fixture
def gs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with closing(GoogleServer(tmp_path)) as server:
        pytest.importorskip("gcsfs")
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(server.key_file))
        yield f"gs://{BUCKET}/parent/copy"


LIST = """
import sys
from mdstorm_backend.storage import Location

location = Location.of(sys.argv[1])
print(location.list_names())
"""
DOOMED_OBJECTS = """
from mdstorm._spark.deletion import delete_at_exit
from mdstorm_backend.write.job_files import mark_directory

mark_directory(location)
print(location.list_names())
delete_at_exit(location.url)
"""


NEW_CLIENT = "location._open_filesystem()[0].clear_instance_cache()"
STORES = ["s3", *(pytest.param(name, marks=pytest.mark.long) for name in ("azure", "gs"))]


@pytest.mark.long
@pytest.mark.parametrize("end", [NEW_CLIENT, ""])
@pytest.mark.parametrize("store", STORES)
def test_copies_in_object_stores_are_removed_at_exit(
    store: str, end: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue(store)
    done = run_program(LIST + DOOMED_OBJECTS + end, url, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("[]\n['_mdstorm']\n", "")
    assert run_program(LIST, url, cwd=tmp_path).stdout == "[]\n"


CONVERT_TO_STORE = """
from mdstorm.spark import make_spark_converter

frame = builder.getOrCreate().range(0, 300, 1, 3)
converter = make_spark_converter(frame, parent_cache_dir_url=sys.argv[1])
assert len(location.list_names()) == 5
for order in ("exact", "elastic"):
    options = {"batch_size": 10, "num_epochs": 1, "order": order, "workers_count": 2}
    with converter.make_torch_dataloader(**options) as loader:
        ids = [row for batch in loader for row in batch["id"].tolist()]
    assert sorted(ids) == list(range(300)), order
converter.delete()
print(location.list_names())
"""


@pytest.mark.long
@pytest.mark.parametrize("store", ["s3", "azure", "gs"])
def test_frame_converted_to_object_store_is_read_in_both_orders(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue(store)
    done = run_program(SESSION + LIST + CONVERT_TO_STORE, url, cwd=tmp_path)
    assert done.stdout == "[]\n[]\n"


NAME = "20260102030405-appid-local-1-0e1c6d5e-9d5c-4b8e-8c44-d5b7b0f2a1aa"
SHARD = "part-00000-0123abcd-0.00000.mds"

#: Kills its driver as soon as the given number of its four tasks have finished.
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
    """Simulate a job that was killed long ago, and return its directory."""
    location = Location.of(str(parent / name))
    mark_directory(location)
    location.write(SHARD, [b"x" * 100])
    grow_old(parent / name)
    return location


def test_next_job_removes_only_unfinished_mdstorm_copies_older_than_a_day(
    tmp_path: Path,
) -> None:
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


def test_next_job_removes_old_unfinished_copy_from_object_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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


def test_cache_command_lists_and_clears_unfinished_copy(tmp_path: Path) -> None:
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
@pytest.mark.parametrize("finished", range(4))
def test_unfinished_copy_left_by_killed_job_is_removed_by_later_job(
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
