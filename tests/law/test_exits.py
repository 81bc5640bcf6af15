"""A program ends by itself and prints nothing, whatever it still reads or has left open.

It opens each loader in each of these ways, and its main program ends while they continue. Readers
need no framework; the programs with loaders of one take as long as its import.
"""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kit.programs import run_program
from tests.kit.small_datasets import write_dataset

ROWS = 40
PROGRAM = """
import atexit, os, sys, threading, warnings

parquet, mds = sys.argv[1:3]
warnings.filterwarnings("ignore", message=".*multi-threaded, use of fork")  # Python 3.12
at_exit = []  # called after the functions that libraries register
atexit.register(lambda: [function() for function in at_exit])
kept = []
LOADERS


def keep(make):
    kept.append(make())

def stop_in_the_middle(make):
    kept.append(iter(make()))
    next(kept[-1])

def drop(make):
    next(iter(make()))

def read_at_exit(make):
    stop_in_the_middle(make)
    at_exit.append(lambda items=kept[-1]: list(items))

def open_at_exit(make):
    at_exit.append(lambda: list(make()))

def close_at_exit(make):
    kept.append(make())
    next(iter(kept[-1]))
    at_exit.append(lambda one=kept[-1]: one.__exit__(None, None, None))

def in_thread(begin, **options):
    began = threading.Event()
    threading.Thread(target=lambda: begin(began), **options).start()
    began.wait()

def read_in_thread(make):
    def read(began):
        for _ in make():
            began.set()
        for _ in range(2):
            list(make())
        print("read", end=" ")
    in_thread(read)

def read_in_daemon(make):
    def read(began):
        while True:
            for _ in make():
                began.set()
    in_thread(read, daemon=True)


MANY = [keep, stop_in_the_middle, drop, read_at_exit, open_at_exit, close_at_exit, read_in_thread]
for make in LOADERS.values():
    for use in MANY:
        use(make)
if os.fork() == 0:  # shares what is open
    os._exit(0)
os.wait()
read_in_daemon(make)
"""
LOADERS = {
    "readers": """
from mdstorm import make_batch_reader, make_reader
LOADERS = {
    "Parquet": lambda: make_batch_reader(parquet, num_epochs=1),
    "without threads": lambda: make_batch_reader(parquet, reader_pool_type="dummy", num_epochs=1),
    "MDS": lambda: make_batch_reader(mds, num_epochs=1),
}
""",
    "torch": """
from mdstorm.pytorch import DataLoader
from mdstorm import make_batch_reader
from mdstorm_backend import StreamingDataLoader, StreamingDataset, open_dataset
from mdstorm.spark import SparkDatasetConverter

class Streaming(StreamingDataLoader):
    def __exit__(self, *error): ...

def converted():
    dataset = open_dataset(mds)
    converter = SparkDatasetConverter(mds, dataset.file_urls, len(dataset))
    return converter.make_torch_dataloader(4, num_epochs=1)

LOADERS = {
    "DataLoader": lambda: DataLoader(make_batch_reader(parquet, num_epochs=1), 4),
    "converter": converted,
    "StreamingDataLoader": lambda: Streaming(StreamingDataset(local=mds), batch_size=4),
}
""",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exits")
    columns = {"n": [*range(ROWS)], "text": ["word"] * ROWS}
    (folder / "parquet").mkdir()
    pq.write_table(pa.table(columns), folder / "parquet/a.parquet", row_group_size=4)
    write_dataset(folder / "mds", columns, {"n": "long", "text": "string"}, shard_size=200)
    return folder


@pytest.mark.parametrize("name", ["readers", pytest.param("torch", marks=pytest.mark.long)])
def test_program_ends_and_prints_no_error(name: str, data: Path, tmp_path: Path) -> None:
    urls = [(data / one).as_uri() for one in ("parquet", "mds")]
    done = run_program(PROGRAM.replace("LOADERS\n", LOADERS[name], 1), *urls, cwd=tmp_path)
    assert done.stderr == ""
    assert set(done.stdout.split()) == {"read"}
