"""Many loaders leak no files, threads or memory."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kit.programs import run_program
from tests.kit.small_datasets import write_numbers

pytestmark = pytest.mark.long

#: Repeatedly opens, reads and closes one kind of object, and prints the resources in use.
CYCLES = """
import gc, os, sys, warnings
from pathlib import Path
from mdstorm import make_batch_reader
from mdstorm.pytorch import DataLoader
from mdstorm.spark import make_spark_converter
from mdstorm_backend import StreamingDataLoader, StreamingDataset

parquet, mds, kind, cycles = *sys.argv[1:4], int(sys.argv[4])
warnings.simplefilter("ignore")

def reader():
    with make_batch_reader(parquet) as batches:
        next(batches)

def torch_loader():
    with DataLoader(make_batch_reader(parquet), 10) as loader:
        next(iter(loader))

def torch_converter():
    converter = make_spark_converter(parquet)
    with converter.make_torch_dataloader(10, num_epochs=1) as loader:
        next(iter(loader))
    converter.delete()

def tf_converter():
    converter = make_spark_converter(parquet)
    with converter.make_tf_dataset(10, num_epochs=1) as dataset:
        next(iter(dataset))

def streaming_loader():
    loader = StreamingDataLoader(StreamingDataset(local=mds), 10)
    next(iter(loader))
    loader.close()

def dropped_loader():
    next(iter(StreamingDataLoader(StreamingDataset(local=mds), 10)))

for number in range(1, cycles + 1):
    globals()[kind]()
    if number in (cycles // 2, cycles):
        gc.collect()
        files, threads = (len(os.listdir(f"/proc/self/{name}")) for name in ("fd", "task"))
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        print(files, threads, pages * os.sysconf("SC_PAGE_SIZE"))
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Parquet file and an MDS dataset with 60 rows each."""
    place = tmp_path_factory.mktemp("cycles")
    table = pa.table({"n": np.arange(60), "x": np.ones(60)})
    pq.write_table(table, place / "a.parquet", row_group_size=10)
    write_numbers(place / "mds", 60)
    return place


@pytest.mark.parametrize(
    ("kind", "cycles"),
    [
        ("reader", 1000),
        ("torch_loader", 1000),
        ("torch_converter", 500),
        ("tf_converter", 100),
        ("streaming_loader", 1200),
        ("dropped_loader", 1200),
    ],
)
def test_many_loaders_do_not_leak_files_threads_or_memory(
    kind: str, cycles: int, place: Path, tmp_path: Path
) -> None:
    arguments = (f"file://{place}/a.parquet", place / "mds", kind, cycles)
    half, end = run_program(CYCLES, *arguments, cwd=tmp_path).stdout.splitlines()[-2:]
    before, after = (list(map(int, line.split())) for line in (half, end))
    # TensorFlow may start and end its own threads at any time.
    spare = 20 if kind == "tf_converter" else 0
    assert after[0] <= before[0] + spare
    assert after[1] <= before[1] + spare
    assert after[2] - before[2] < 16 << 20
