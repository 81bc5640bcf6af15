"""The table `NAME` that the fixture `orders` makes, and functions that read it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.kit.delta_tables import field

from mdstorm.cli import main
from mdstorm.spark import SparkDatasetConverter, make_spark_converter

torch_data = pytest.importorskip("torch.utils.data")

NAME = "main.sales.orders"
FIELDS = [field("n", "long")]
#: The live rows in the newest version and in version 0.
NEWEST, FIRST = [1, 2, 4, *range(5, 10)], list(range(10))


def numbers(reader: Any) -> list[int]:
    with reader:
        return sorted(int(n) for batch in reader for n in _values(batch.n))


def _values(found: Any) -> Any:
    return found if hasattr(found, "__len__") else [found]


def by_torch(converter: SparkDatasetConverter) -> list[int]:
    with converter.make_torch_dataloader(batch_size=3, num_epochs=1) as loader:
        return sorted(n for batch in loader for n in batch["n"].tolist())


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def share_by_torch(name: str, rank: int, ranks: int, **as_of: Any) -> Iterator[int]:
    made = make_spark_converter(name, **as_of).make_torch_dataloader(
        batch_size=3, num_epochs=1, cur_shard=rank, shard_count=ranks
    )
    with made as loader:
        yield from (n for batch in loader for n in batch["n"].tolist())


class Opening(torch_data.IterableDataset):  # type: ignore[misc, name-defined]
    """Opens the table in each worker process and reads the worker's share."""

    def __init__(self, read: Callable[[str, int, int], Iterator[Any]], name: str) -> None:
        self.read, self.name = read, name

    def __iter__(self) -> Iterator[Any]:
        worker = torch_data.get_worker_info()
        return self.read(self.name, worker.id, worker.num_workers)
