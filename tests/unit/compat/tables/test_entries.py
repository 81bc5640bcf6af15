"""Every entry point reads each row of a named table once, even in worker processes."""

import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime, timedelta, timezone
from functools import partial
from multiprocessing import get_context
from typing import Any

import pytest
from tests.kit.servers.catalog import Catalog
from tests.unit.compat.tables.orders import (
    FIRST,
    NAME,
    NEWEST,
    Opening,
    run,
    share_by_torch,
)

from mdstorm import convert, make_batch_reader, make_reader
from mdstorm.errors import DatasetNotFoundError
from mdstorm.pytorch import BatchedDataLoader, DataLoader
from mdstorm.spark import make_spark_converter
from mdstorm_backend import StreamingDataLoader, StreamingDataset, open_dataset
from mdstorm_backend.maintenance import head, inspect, verify

torch_data = pytest.importorskip("torch.utils.data")
pytestmark = pytest.mark.filterwarnings("ignore:Currently make_reader supports")

SPELLINGS = pytest.mark.parametrize("name", [NAME, "`main`.`sales`.`orders`", f"uc://{NAME}"])

#: Reads a rank's share. The arguments are the table name, the rank, the number of ranks, and
#: optionally ``version=`` or ``timestamp=``.
Read = Callable[..., Iterator[int]]


def by_row_reader(name: str, rank: int, ranks: int, **as_of: Any) -> Iterator[int]:
    with make_reader(name, num_epochs=1, cur_shard=rank, shard_count=ranks, **as_of) as rows:
        yield from (int(row.n) for row in rows)


def by_batch_reader(name: str, rank: int, ranks: int, **as_of: Any) -> Iterator[int]:
    """Read with `make_batch_reader`, which is given the table name in a list."""
    share = {"num_epochs": 1, "cur_shard": rank, "shard_count": ranks}
    with make_batch_reader([name], **share, **as_of) as batches:
        yield from (n for batch in batches for n in batch.n.tolist())


def by_row_loader(name: str, rank: int, ranks: int, **as_of: Any) -> Iterator[int]:
    share = {"num_epochs": 1, "cur_shard": rank, "shard_count": ranks}
    with DataLoader(make_reader(name, **share, **as_of), batch_size=3) as loader:
        yield from (n for batch in loader for n in batch["n"].tolist())


def by_batched_loader(name: str, rank: int, ranks: int, **as_of: Any) -> Iterator[int]:
    share = {"num_epochs": 1, "cur_shard": rank, "shard_count": ranks}
    with BatchedDataLoader(make_batch_reader(name, **share, **as_of), batch_size=3) as loader:
        yield from (n for batch in loader for n in batch["n"].tolist())


def by_convert(name: str, rank: int, ranks: int, **as_of: Any) -> Iterator[int]:
    with tempfile.TemporaryDirectory() as folder:
        made = convert(name, f"{folder}/mds", progress=False, **as_of)
        yield from (int(made[number]["n"]) for number in range(rank, len(made), ranks))


def by_commands(name: str, rank: int, ranks: int, **as_of: Any) -> Iterator[int]:
    """Convert the table and verify the result against the table."""
    options = [text for key, value in as_of.items() for text in (f"--{key}", str(value))]
    with tempfile.TemporaryDirectory() as folder:
        for command in (["convert", name], ["verify", "--against", name]):
            result = run(*command, *options, f"{folder}/mds")
            assert result.exit_code == 0, result.output
        made = open_dataset(f"{folder}/mds")
        yield from (int(made[number]["n"]) for number in range(rank, len(made), ranks))


def by_dataset_of_reader(name: str, rank: int, ranks: int, **as_of: Any) -> Iterator[int]:
    from mdstorm.tf_utils import make_petastorm_dataset

    share = {"num_epochs": 1, "cur_shard": rank, "shard_count": ranks}
    with make_batch_reader(name, **share, **as_of) as reader:
        batches = make_petastorm_dataset(reader)
        yield from (n for batch in batches for n in batch.n.numpy().tolist())


def by_tensorflow(name: str, rank: int, ranks: int, **as_of: Any) -> Iterator[int]:
    dataset = make_spark_converter(name, **as_of).make_tf_dataset(
        batch_size=3, num_epochs=1, cur_shard=rank, shard_count=ranks
    )
    yield from (n for batch in dataset for n in batch.n.numpy().tolist())


WITHOUT_TENSORFLOW: dict[str, Read] = {
    "make_reader": by_row_reader,
    "make_batch_reader": by_batch_reader,
    "DataLoader": by_row_loader,
    "BatchedDataLoader": by_batched_loader,
    "make_torch_dataloader": share_by_torch,
    "convert": by_convert,
    "mdstorm convert, mdstorm verify": by_commands,
}
ENTRIES: dict[str, Read] = {
    **WITHOUT_TENSORFLOW,
    "make_petastorm_dataset": by_dataset_of_reader,
    "make_tf_dataset": by_tensorflow,
}
#: A time between the table's two versions, because the test backdates version 0.
YESTERDAY = (datetime.now(timezone.utc) - timedelta(days=1)).isoformat(timespec="seconds")
#: The expected rows for each way of choosing a version.
VERSIONS: list[tuple[dict[str, Any], list[int]]] = [
    ({}, NEWEST),
    ({"version": 0}, FIRST),
    ({"timestamp": YESTERDAY}, FIRST),
]


def read_all(
    entries: dict[str, Read], name: str, rank: int, ranks: int
) -> Iterator[tuple[str, int]]:
    """Yield the rows that each entry point reads from each version."""
    for entry, read in entries.items():
        for as_of, _ in VERSIONS:
            yield from ((f"{entry} {[*as_of]}", n) for n in read(name, rank, ranks, **as_of))


def read_in_a_program(method: str | None, name: str) -> list[tuple[str, int]]:
    """Read with every entry point, in two worker processes or in this process."""
    # TensorFlow does not work in processes that are forked after it has been imported.
    read = partial(read_all, WITHOUT_TENSORFLOW if method == "fork" else ENTRIES)
    if method is None:
        return list(read(name, 0, 1))
    how: dict[str, Any] = {"num_workers": 2, "multiprocessing_context": method}
    return list(torch_data.DataLoader(Opening(read, name), batch_size=None, **how))


@pytest.mark.long
@SPELLINGS
@pytest.mark.parametrize("method", [None, "fork", "spawn"], ids=str)
def test_every_entry_point_reads_each_row_of_named_table_once(
    method: str | None,
    name: str,
    orders: Catalog,
) -> None:
    """Run in a new process, because deltalake does not work in forks made after it was used."""
    orders.behind.grow_old(f"tables/{NAME}/_delta_log/{0:020}")
    with ProcessPoolExecutor(1, get_context("spawn")) as program:
        rows = program.submit(read_in_a_program, method, name).result()
    entries = WITHOUT_TENSORFLOW if method == "fork" else ENTRIES
    found: dict[str, list[int]] = {}
    for entry, n in rows:
        found.setdefault(entry, []).append(n)
    assert {entry: sorted(ns) for entry, ns in found.items()} == {
        f"{entry} {[*as_of]}": wanted for entry in entries for as_of, wanted in VERSIONS
    }
    assert orders.unity.asked == {f"id-of-{NAME}": 1 if method is None else 2}
    assert not orders.guard.outside


@pytest.mark.long
@SPELLINGS
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_converter_workers_read_each_row_of_named_table_once(
    method: str,
    name: str,
    orders: Catalog,
) -> None:
    with make_spark_converter(name).make_torch_dataloader(num_epochs=1) as made:
        how: dict[str, Any] = {"num_workers": 2, "multiprocessing_context": method}
        loader = StreamingDataLoader(made.dataset, batch_size=3, **how)
        assert sorted(n for batch in loader for n in batch["n"].tolist()) == NEWEST


OF_MDS: dict[str, Callable[[str], Any]] = {
    "inspect": inspect,
    "head": head,
    "verify": partial(verify, on_progress=False),
    "open_dataset": open_dataset,
    "StreamingDataset": lambda name: StreamingDataset(remote=name, batch_size=1),
}


@pytest.mark.matrix
@SPELLINGS
@pytest.mark.parametrize("entry", OF_MDS)
def test_mds_entry_point_error_explains_how_to_read_a_table_by_name(
    entry: str,
    name: str,
    orders: Catalog,
) -> None:
    with pytest.raises(DatasetNotFoundError) as caught:
        OF_MDS[entry](name)
    assert f"mdstorm.make_batch_reader('{NAME}')" in str(caught.value)
    assert f"mdstorm convert 'uc://{NAME}' DST" in str(caught.value)
    if entry in ("inspect", "head", "verify"):
        result = run(entry, name)
        assert (result.exit_code, f"make_batch_reader('{NAME}')" in result.output) == (3, True)
    assert not orders.unity.requests
