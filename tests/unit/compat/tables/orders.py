"""The table `NAME` that the fixture `orders` makes, and functions that read it."""

from typing import Any

from click.testing import CliRunner, Result
from tests.kit.delta_tables import field

from mdstorm.cli import main
from mdstorm.spark import SparkDatasetConverter

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
