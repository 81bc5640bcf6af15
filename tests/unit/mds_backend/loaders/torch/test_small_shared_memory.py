"""Worker processes with a small `/dev/shm`, such as 64 MB in a container."""

import shlex
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.kit.programs import own_mounts, run_command
from tests.kit.small_datasets import array_of, write_dataset

pytestmark = pytest.mark.long

#: 16 MB, in batches of 8 or 4 MB.
ROWS, FLOATS = 4096, 1024

READ = """
import sys
from mdstorm_backend import StreamingDataLoader, StreamingDataset
from mdstorm_backend.errors import LostBatchesError

dataset = StreamingDataset(local=sys.argv[1])
ids = []
try:
    options = {"num_workers": 2, "prefetch_factor": int(sys.argv[3]), "timeout": 60}
    for batch in StreamingDataLoader(dataset, int(sys.argv[2]), **options):
        ids += batch["id"].tolist()
except LostBatchesError as error:
    print("lost:", error)
else:
    print("rows:", ids == list(range(4096)))
"""


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset with 4 KB rows."""
    directory = tmp_path_factory.mktemp("wide")
    values = pa.array(np.ones(ROWS * FLOATS, np.float32))
    lists = pa.ListArray.from_arrays(np.arange(0, ROWS * FLOATS + 1, FLOATS, np.int32), values)
    table = pa.table({"id": np.arange(ROWS), "x": lists})
    write_dataset(directory, table, {"id": "long", "x": array_of("float")}, shard_size=1 << 21)
    return directory


@pytest.mark.parametrize(
    ("size", "batch_size", "prefetch", "printed"),
    [
        ("64m", 2048, 4, "rows: True"),
        ("8m", 2048, 4, "lost: "),
        # No further message is requested from a worker unless one of these arrives.
        ("2m", 1024, 2, "lost: "),
        # There is not even room for the semaphores of the worker processes.
        ("64k", 1024, 2, "lost: worker processes cannot be started"),
    ],
)
def test_small_shared_memory_suffices_or_raises_lost_batches_error(
    size: str, batch_size: int, prefetch: int, printed: str, dataset: Path, tmp_path: Path
) -> None:
    (tmp_path / "read.py").write_text(READ)
    mount = f"mount -t tmpfs -o size={size} none /dev/shm"
    read = shlex.join([sys.executable, "read.py", *map(str, (dataset, batch_size, prefetch))])
    done = run_command(*own_mounts(), "sh", "-c", f"{mount} && exec {read}", cwd=tmp_path)
    assert done.stdout.startswith(printed), done.stdout + done.stderr
    assert not done.stderr
