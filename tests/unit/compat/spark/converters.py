"""Converters over test datasets, and the rows that their loaders and readers yield."""

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.kit.small_datasets import Columns, Fields, write_dataset

from mdstorm.reader import make_batch_reader, make_reader
from mdstorm.spark import SparkDatasetConverter
from mdstorm_backend import open_dataset

#: Data that some converters read in place.
TABLE = pa.table({"id": range(6), "x": [i / 4 for i in range(6)], "s": list("abcdef")})
#: Arguments for one pass in stored order.
IN_ORDER = {"num_epochs": 1, "shuffle_row_groups": False}

Rows = dict[str, Any]
Read = Callable[..., list[Rows]]


def converter_of(
    directory: Path, columns: Columns, fields: Fields, **options: Any
) -> SparkDatasetConverter:
    """Write an MDS dataset with these columns; return a converter, as if for a DataFrame."""
    dataset = write_dataset(directory, columns, fields, **options)
    return SparkDatasetConverter(dataset.url, dataset.file_urls, len(dataset))


def with_torch(
    converter: SparkDatasetConverter, *, take: int | None = None, **arguments: Any
) -> list[Rows]:
    """Return the PyTorch loader's batches (only the first `take`, if given) as lists."""
    with converter.make_torch_dataloader(**arguments) as loader:
        return [
            {name: getattr(values, "tolist", lambda v=values: v)() for name, values in b.items()}
            for b in islice(loader, take)
        ]


def with_tf(
    converter: SparkDatasetConverter, *, take: int | None = None, **arguments: Any
) -> list[Rows]:
    """Return the TensorFlow dataset's batches (only the first `take`, if given) as lists."""
    with converter.make_tf_dataset(**arguments) as dataset:
        return [
            {
                name: v.to_list() if hasattr(v, "to_list") else v.numpy().tolist()
                for name, v in batch._asdict().items()
            }
            for batch in islice(dataset, take)
        ]


#: Runs a test with each framework.
with_either = pytest.mark.parametrize("read", [with_torch, with_tf], ids=["torch", "tf"])


def ids(converter: SparkDatasetConverter) -> list[int]:
    """Return the first column of a converter's dataset, in stored order."""
    table = open_dataset(converter.cache_dir_url).to_table()
    return table.column(0).to_pylist()  # type: ignore[no-any-return]


def numbers(batches: list[Rows]) -> list[list[int]]:
    """Return the column ``number`` of each batch."""
    return [batch["number"] for batch in batches]


def directories(cache_dir: Path) -> int:
    """Return the number of copies in a parent cache directory."""
    return len(list(cache_dir.glob("*-appid-*")))


Numbers = Callable[..., list[int]]


def of_loader(read: Callable[..., Any]) -> Numbers:
    def numbers(converter: SparkDatasetConverter, **arguments: Any) -> list[int]:
        batches = read(converter, batch_size=16, **arguments)
        return [number for batch in batches for number in batch["number"]]

    return numbers


def of_reader(make: Callable[..., Any]) -> Numbers:
    def numbers(converter: SparkDatasetConverter, **arguments: Any) -> list[int]:
        with make(converter.cache_dir_url, **arguments) as reader:
            return [int(number) for item in reader for number in np.atleast_1d(item.number)]

    return numbers


WAYS = {
    "torch": of_loader(with_torch),
    "tf": of_loader(with_tf),
    "make_batch_reader": of_reader(make_batch_reader),
    "make_reader": of_reader(make_reader),
}
with_each = pytest.mark.parametrize("numbers", WAYS.values(), ids=WAYS)
#: All loaders and readers, in both orders. In the elastic order they behave alike, so most of them
#: run only in the long tests.
with_each_in_either_order = pytest.mark.parametrize(
    ("numbers", "order"),
    [
        pytest.param(
            way,
            order,
            id=f"{name}-{order}",
            marks=() if order == "exact" or name == "torch" else pytest.mark.long,
        )
        for order in ("exact", "elastic")
        for name, way in WAYS.items()
    ],
)
in_either_order = pytest.mark.parametrize("order", ["exact", "elastic"])
