"""Worker processes that open a table by its name themselves read each row once, at every entry."""

import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.compat.tables.test_names import NAME, NEWEST, SPELLINGS, orders  # noqa: F401
from tests.servers.catalog import Catalog

from mdstorm import convert, make_batch_reader, make_reader
from mdstorm.spark import make_spark_converter
from mdstorm_backend import StreamingDataLoader

torch_data = pytest.importorskip("torch.utils.data")
pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:Currently make_reader supports"),
]


def by_reader(name: str, rank: int, ranks: int) -> Iterator[int]:
    with make_reader(name, num_epochs=1, cur_shard=rank, shard_count=ranks) as rows:
        yield from (int(row.n) for row in rows)


def by_batch_reader(name: str, rank: int, ranks: int) -> Iterator[int]:
    with make_batch_reader(name, num_epochs=1, cur_shard=rank, shard_count=ranks) as batches:
        yield from (n for batch in batches for n in batch.n.tolist())


def by_torch(name: str, rank: int, ranks: int) -> Iterator[int]:
    made = make_spark_converter(name).make_torch_dataloader(
        batch_size=3, num_epochs=1, cur_shard=rank, shard_count=ranks
    )
    with made as loader:
        yield from (n for batch in loader for n in batch["n"].tolist())


def by_tensorflow(name: str, rank: int, ranks: int) -> Iterator[int]:
    dataset = make_spark_converter(name).make_tf_dataset(
        batch_size=3, num_epochs=1, cur_shard=rank, shard_count=ranks
    )
    yield from (n for batch in dataset for n in batch.n.numpy().tolist())


def by_convert(name: str, rank: int, ranks: int) -> Iterator[int]:
    with tempfile.TemporaryDirectory() as folder:
        made = convert(name, f"{folder}/mds", progress=False)
        yield from (int(made[number]["n"]) for number in range(rank, len(made), ranks))


class Opening(torch_data.IterableDataset):  # type: ignore[misc, name-defined]
    """Each worker process opens the table, and reads its share."""

    def __init__(self, read: Callable[[str, int, int], Iterator[int]], name: str) -> None:
        self.read, self.name = read, name

    def __iter__(self) -> Iterator[int]:
        worker = torch_data.get_worker_info()
        return self.read(self.name, worker.id, worker.num_workers)


#: Not TensorFlow in processes that are forked after its import, where it does not work.
FORKED = [by_reader, by_batch_reader, by_torch, by_convert]


@SPELLINGS
@pytest.mark.parametrize(
    ("method", "read"),
    [*(("fork", read) for read in FORKED), *(("spawn", r) for r in [*FORKED, by_tensorflow])],
)
def test_workers_that_open_a_name_read_each_row_once(
    method: str,
    read: Callable[[str, int, int], Iterator[int]],
    name: str,
    orders: Catalog,  # noqa: F811
) -> None:
    loader = torch_data.DataLoader(
        Opening(read, name), batch_size=None, num_workers=2, multiprocessing_context=method
    )
    assert sorted(loader) == NEWEST
    assert orders.unity.asked == {f"id-of-{NAME}": 2}
    assert not orders.guard.outside


@SPELLINGS
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_a_converter_over_a_name_read_each_row_once(
    method: str,
    name: str,
    orders: Catalog,  # noqa: F811
) -> None:
    with make_spark_converter(name).make_torch_dataloader(num_epochs=1) as made:
        how: dict[str, Any] = {"num_workers": 2, "multiprocessing_context": method}
        loader = StreamingDataLoader(made.dataset, batch_size=3, **how)
        assert sorted(n for batch in loader for n in batch["n"].tolist()) == NEWEST
