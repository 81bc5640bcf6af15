"""Processes sharing a cache download each shard once, even if some are killed."""

from collections import Counter
from pathlib import Path

import pytest
from tests.kit.programs import run_program
from tests.unit.mds_backend.cache.shards import files_in, parts_in

_ROOT = Path(__file__).parents[4]

_HEAD = """
import os, random, signal, sys, threading
root, directory, limit, *compressions = sys.argv[1:]
sys.path.insert(0, root)
from pathlib import Path
from tests.unit.mds_backend.cache import shards
from tests.unit.mds_backend.cache.shards import cache, contents, files_in, make_shards, parts_in

directory, limit = Path(directory), int(limit) or None
source, local = directory / "source", directory / "local"
"""

_SHARED = (
    _HEAD
    + """
infos = make_shards(source, 12, compression="zstd")
expected = contents(infos)
log = os.open(directory / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
get_file = shards.RemoteFileSystem.get_file

def logged(self, rpath, lpath, **options):
    os.write(log, f"{os.path.basename(rpath)}\\n".encode())
    get_file(self, rpath, lpath, **options)

shards.RemoteFileSystem.get_file = logged
begin = os.pipe()
children = []
for number in range(6):
    child = os.fork()
    if child == 0:
        os.close(begin[1])
        os.read(begin[0], 1)  # ends for all at a time
        order = list(range(12))
        random.Random(number).shuffle(order)
        files = cache(source, directory=local, limit=limit)
        good = all(bytes(files.open(infos[i])) == expected[i] for i in order * 2)
        os._exit(0 if good else 3)
    children.append(child)
os.close(begin[1])
assert [os.waitpid(child, 0)[1] for child in children] == [0] * 6
"""
)


@pytest.mark.parametrize("limit", [0, 4000])
def test_processes_download_each_shard_once_and_share_the_cache_limit(
    limit: int, tmp_path: Path
) -> None:
    run_program(_SHARED, _ROOT, tmp_path, limit, cwd=tmp_path)
    local = tmp_path / "local"
    if limit:
        assert sum((local / name).stat().st_size for name in files_in(local)) <= limit
    else:
        log = Counter((tmp_path / "log").read_text().split())
        assert (len(log), set(log.values())) == (12, {1})
    assert parts_in(local) == []


#: Forks one child per step and kills it at that step, where a step opens, renames, removes,
#: truncates or locks a file. The parent then reads all shards in the directory that the child left.
_KILLED = (
    _HEAD
    + """
compression, = compressions
infos = make_shards(source, 3, compression=None if compression == "raw" else "zstd")
options = {"limit": limit, "keep_zip": compression == "keep", "validate_hash": "sha1"}

STEPS = {"fcntl.flock", "mmap.__new__", "open", "os.mkdir", "os.remove", "os.rename", "os.truncate",
         "os.utime"}
steps_left = None

def step(event, arguments):
    global steps_left
    if steps_left is None or event not in STEPS:
        return
    if event == "open" and str(directory) not in str(arguments[0]):
        return
    steps_left -= 1
    if steps_left < 0:
        os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(step)

killed = steps = 0
while True:
    local = directory / str(steps)
    local.mkdir()
    (local / "mine.txt").write_text("mine")
    child = os.fork()
    if child == 0:
        steps_left = steps
        files = cache(source, directory=local, **options)
        for info in infos:
            files.open(info)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    files = cache(source, directory=local, timeout=20.0, **options)
    assert [bytes(files.open(info)) for info in infos] == contents(infos), steps
    assert [bytes(files.open(info)) for info in reversed(infos)] == contents(infos)[::-1], steps
    assert parts_in(local) == [], (steps, parts_in(local))
    assert (local / "mine.txt").read_text() == "mine"
    if limit:
        kept = sum((local / name).stat().st_size for name in files_in(local)) - len("mine")
        assert kept <= limit, (steps, files_in(local))
    if status == 0:
        break
    assert os.WTERMSIG(status) == signal.SIGKILL, status
    killed += 1
    steps += 1
print(killed, flush=True)
os._exit(0)
"""
)


@pytest.mark.parametrize(
    ("compression", "limit"),
    [
        ("keep", 3000),
        *(
            pytest.param(*one, marks=pytest.mark.long)
            for one in [("raw", 2500), ("zip", 2500), ("keep", 0)]
        ),
    ],
)
def test_restart_after_a_kill_at_any_step_reads_all_shards(
    compression: str, limit: int, tmp_path: Path
) -> None:
    directory = tmp_path / "work"
    directory.mkdir()
    done = run_program(_KILLED, _ROOT, directory, limit, compression, cwd=tmp_path)
    assert int(done.stdout) > 30
