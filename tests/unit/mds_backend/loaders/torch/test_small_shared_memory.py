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

#: 16 MB in batches of 8 MB; a batch does not fit in an 8 MB tmpfs.
ROWS, FLOATS = 4096, 1024

READ = """
import sys
from mdstorm_backend import StreamingDataLoader, StreamingDataset
from mdstorm_backend.errors import LostBatchesError

dataset = StreamingDataset(local=sys.argv[1])
ids = []
try:
    for batch in StreamingDataLoader(dataset, 2048, num_workers=2, prefetch_factor=4):
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


@pytest.mark.parametrize(("megabytes", "printed"), [(64, "rows: True"), (8, "lost: ")])
def test_small_shared_memory_suffices_or_raises_lost_batches_error(
    megabytes: int, printed: str, dataset: Path, tmp_path: Path
) -> None:
    (tmp_path / "read.py").write_text(READ)
    mount = f"mount -t tmpfs -o size={megabytes}m none /dev/shm"
    read = shlex.join([sys.executable, "read.py", str(dataset)])
    done = run_command(*own_mounts(), "sh", "-c", f"{mount} && exec {read}", cwd=tmp_path)
    assert done.stdout.startswith(printed), done.stdout + done.stderr
