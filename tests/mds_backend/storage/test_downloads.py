"""The cache against a server that counts requests and hangs."""

from pathlib import Path

import pytest
from tests.mds_backend.cache.shards import make_shards
from tests.programs import run_program
from tests.servers.s3 import BUCKET, S3Server

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
