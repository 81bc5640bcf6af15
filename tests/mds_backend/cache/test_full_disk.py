"""A disk that is full: a clear error, nothing half-written, and it works when there is room."""

from pathlib import Path

import pytest
from tests.programs import run_program

_ROOT = Path(__file__).parents[3]

#: The limit on a file's size stands for the disk's: the system refuses to write more.
_PROGRAM = """
import resource, sys
root, directory, compression = sys.argv[1:]
sys.path.insert(0, root)
from pathlib import Path
from mdstorm_backend.errors import StorageError
from tests.mds_backend.cache.shards import cache, contents, files_in, make_shards, parts_in

source, local = Path(directory) / "source", Path(directory) / "local"
infos = make_shards(source, 2, 100_000, compression=compression if compression != "raw" else None)
files = cache(source, directory=local)
for room in (0, 200, 50_000, 60_000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
    try:
        files.open(infos[0])
    except StorageError as error:
        assert "File too large" in str(error) and "MDSTORM_CACHE_DIR" in str(error), error
        assert str(local) in str(error), error
    else:
        raise AssertionError("there was no room")
    assert files_in(local) == [] and parts_in(local) == [], room
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert [bytes(files.open(info)) for info in infos] == contents(infos, 100_000)
print("done", flush=True)
"""


@pytest.mark.parametrize("compression", ["raw", "zstd"])
def test_a_full_disk_is_named_and_nothing_half_written_stays(
    compression: str, tmp_path: Path
) -> None:
    done = run_program(_PROGRAM, _ROOT, tmp_path, compression, cwd=tmp_path)
    assert done.stdout == "done\n"
