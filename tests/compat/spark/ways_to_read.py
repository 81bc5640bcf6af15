"""The numbers that loaders, datasets and readers deliver of a converter's dataset."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.compat.spark.converters import with_tf, with_torch

from mdstorm.reader import make_batch_reader, make_reader
from mdstorm.spark import SparkDatasetConverter

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
#: All ways in both orders; those of the elastic order are alike, so that the gate needs one.
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
