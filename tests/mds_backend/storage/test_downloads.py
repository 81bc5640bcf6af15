"""The cache against a server that counts requests and hangs."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.mds_backend.cache.shards import contents, make_shards, parts_in
from tests.programs import run_program
from tests.servers.s3 import BUCKET, S3Server

from mdstorm_backend.cache import CacheOptions, ShardFiles, shard_files
from mdstorm_backend.format.index import ShardInfo
from mdstorm_backend.storage import Location

_ROOT = Path(__file__).parents[3]
COUNT = 4


@pytest.fixture
def infos(s3: S3Server, tmp_path: Path) -> list[ShardInfo]:
    """Shards in the bucket."""
    found = make_shards(tmp_path / "source", COUNT, compression="gz")
    for path in (tmp_path / "source").iterdir():
        location_of(s3).write(path.name, [path.read_bytes()])
    location_of(s3).write("index.json", [b"{}"])
    s3.reset()
    return found


def location_of(server: S3Server) -> Location:
    # Only our own attempts count.
    retries = {"config_kwargs": {"retries": {"max_attempts": 0}}}
    return Location.of(f"s3://{BUCKET}/data", {"endpoint_url": server.url, **retries})


def cache(server: S3Server, directory: Path, **options: Any) -> ShardFiles:
    options = {"directory": str(directory), **options}
    return shard_files(location_of(server), "f", CacheOptions(**options))


_PROGRAM = """
import sys
root, url, endpoint, directory, limit = sys.argv[1:]
sys.path.insert(0, root)
from pathlib import Path
from mdstorm_backend.cache import CacheOptions, shard_files
from mdstorm_backend.storage import Location
from tests.mds_backend.cache.shards import contents, make_shards

infos = make_shards(Path(directory) / "other source", int(limit), compression="gz")
options = CacheOptions(directory=f"{directory}/local")
files = shard_files(Location.of(url, {"endpoint_url": endpoint}), "f", options)
print("ready", flush=True)
sys.stdin.readline()
assert [bytes(files.open(info)) for info in infos] == contents(infos)
"""


def started(server: S3Server, directory: Path) -> subprocess.Popen[str]:
    """A process that brings all shards when it is told to."""
    arguments = (_ROOT, f"s3://{BUCKET}/data", server.url, directory, COUNT)
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_a_download_goes_on_where_a_killed_process_was(
    s3: S3Server, infos: list[ShardInfo], tmp_path: Path
) -> None:
    process = started(s3, tmp_path)
    reached, release = threading.Event(), threading.Event()

    def hold_the_second(method: str, path: str) -> None:
        if path.endswith("1.mds.gz") and not release.is_set():
            reached.set()
            release.wait(60)

    s3.fault = hold_the_second
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    assert reached.wait(60)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    release.set()
    s3.reset()
    files = cache(s3, tmp_path / "local")
    assert [bytes(files.open(info)) for info in infos] == contents(infos)
    assert s3.count("GET", ".gz") == COUNT - 1
    assert parts_in(tmp_path / "local") == []


_FORKING_PROGRAM = """
import os, sys
root, url, endpoint, directory, count = sys.argv[1:]
sys.path.insert(0, root)
from pathlib import Path
from mdstorm_backend.cache import CacheOptions, shard_files
from mdstorm_backend.storage import Location
from tests.mds_backend.cache.shards import contents, make_shards

infos = make_shards(Path(directory) / "other source", int(count), compression="gz")
options = CacheOptions(directory=f"{directory}/local", timeout=20, retry=1)
files = shard_files(Location.of(url, {"endpoint_url": endpoint}), "f", options)
files.open(infos[0])
child = os.fork()
if child == 0:
    os._exit(0 if bytes(files.open(infos[1])) == contents(infos)[1] else 3)
assert os.waitpid(child, 0)[1] == 0
assert bytes(files.open(infos[2])) == contents(infos)[2]
"""


def test_a_forked_child_downloads_as_its_parent_does(
    s3: S3Server, infos: list[ShardInfo], tmp_path: Path
) -> None:
    place = (f"s3://{BUCKET}/data", s3.url, tmp_path, COUNT)
    run_program(_FORKING_PROGRAM, _ROOT, *place, cwd=tmp_path)
    assert s3.count("GET", ".gz") == 3
