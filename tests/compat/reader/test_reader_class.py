"""`Reader` made by hand: a file system, a path in it, and a pool."""

from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
from tests.compat.readers import IN_ORDER, write_parquet

from mdstorm.cache import NullCache
from mdstorm.errors import ArgumentTypeError, MissingAttributeError, UnsupportedArgumentError
from mdstorm.local_disk_cache import LocalDiskCache
from mdstorm.reader import Reader
from mdstorm.transform import TransformSpec
from mdstorm.workers_pool.dummy_pool import DummyPool
from mdstorm.workers_pool.process_pool import ProcessPool
from mdstorm.workers_pool.thread_pool import ThreadPool
from mdstorm_backend import MDSWriter


@pytest.fixture
def ten(tmp_path: Path) -> str:
    write_parquet(tmp_path / "ten", {"number": np.arange(10)})
    return str(tmp_path / "ten")


def read(filesystem: Any, path: Any, **arguments: Any) -> list[list[int]]:
    with Reader(filesystem, path, is_batched_reader=True, **IN_ORDER, **arguments) as reader:
        return [batch.number.tolist() for batch in reader]


NUMBERS = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


@pytest.mark.parametrize("local", [None, fsspec.filesystem("file"), pa.fs.LocalFileSystem()])
def test_a_path_of_the_local_file_system(ten: str, local: Any) -> None:
    assert read(local, ten) == read(local, [f"{ten}/part.parquet"]) == NUMBERS


def test_a_path_of_another_file_system() -> None:
    memory = fsspec.filesystem("memory")
    with memory.open("/by_hand/part.parquet", "wb") as file:
        pq.write_table(pa.table({"number": [1, 2]}), file)
    assert read(memory, "/by_hand") == [[1, 2]]


def test_a_path_of_mds(tmp_path: Path) -> None:
    with MDSWriter(out=str(tmp_path / "mds"), columns={"number": "int64"}) as writer:
        writer.write({"number": 7})
    assert read(None, str(tmp_path / "mds")) == [[7]]


@pytest.mark.parametrize("pool", [ThreadPool(2, 3), DummyPool(), None])
def test_pools_say_where_to_read(ten: str, pool: Any) -> None:
    assert read(None, ten, reader_pool=pool, cache=NullCache()) == NUMBERS


@pytest.mark.long
def test_functions_run_in_a_pool_of_processes(ten: str) -> None:
    spec = TransformSpec(lambda frame: frame + 1)
    found = read(None, ten, reader_pool=ProcessPool(1), transform_spec=spec)
    assert found == [[number + 1 for number in batch] for batch in NUMBERS]


def test_what_is_no_pool_is_refused(ten: str) -> None:
    with pytest.raises(ArgumentTypeError, match=r"must be a ThreadPool, .* found 'thread'"):
        Reader(None, ten, reader_pool="thread")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="workers_count must be an integer of at least 1"):
        ThreadPool(0)


def test_a_worker_class_is_refused(ten: str) -> None:
    with pytest.raises(UnsupportedArgumentError, match="workers-and-their-queues"):
        Reader(None, ten, worker_class=object)  # type: ignore[arg-type]


def test_a_cache_is_refused(ten: str, tmp_path: Path) -> None:
    cache = LocalDiskCache(str(tmp_path / "cache"), 1 << 30, 100)
    with pytest.raises(UnsupportedArgumentError, match="cache_type='local-disk'"):
        Reader(None, ten, cache=cache)


def test_a_pool_runs_nothing_itself() -> None:
    pool = DummyPool()
    with pytest.raises(MissingAttributeError, match=r"differences\.md#workers-and-their-queues"):
        pool.start(None)
    assert not hasattr(pool, "get_results")
