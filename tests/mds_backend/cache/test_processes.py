"""Many processes share a cache directory: each shard comes once, and an error reaches everybody."""

from collections import Counter
from pathlib import Path

from tests.mds_backend.cache.shards import files_in, parts_in
from tests.programs import run_program

_ROOT = Path(__file__).parents[3]

_PROGRAM = """
import os, random, sys
root, directory, limit = sys.argv[1:]
sys.path.insert(0, root)
from pathlib import Path
from tests.mds_backend.cache import shards
from tests.mds_backend.cache.shards import cache, contents, make_shards

directory = Path(directory)
source, local = directory / "source", directory / "local"
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
        files = cache(source, directory=local, limit=int(limit) or None)
        good = all(bytes(files.open(infos[i])) == expected[i] for i in order * 2)
        os._exit(0 if good else 3)
    children.append(child)
os.close(begin[1])
assert [os.waitpid(child, 0)[1] for child in children] == [0] * 6
"""


def test_processes_download_each_shard_once(tmp_path: Path) -> None:
    run_program(_PROGRAM, _ROOT, tmp_path, 0, cwd=tmp_path)
    log = Counter((tmp_path / "log").read_text().split())
    assert len(log) == 12
    assert set(log.values()) == {1}
    assert parts_in(tmp_path / "local") == []


def test_processes_keep_the_limit_together(tmp_path: Path) -> None:
    run_program(_PROGRAM, _ROOT, tmp_path, 4000, cwd=tmp_path)
    local = tmp_path / "local"
    assert sum((local / name).stat().st_size for name in files_in(local)) <= 4000
    assert parts_in(local) == []
