"""MosaicML's loader as ``data_loader_fn``: what its dataset is told, and what it cannot do.

A stand-in has its names; `tests/interop` runs the genuine ones.
"""

import functools
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tests.compat.spark.converters import converter_of

from mdstorm import TransformSpec
from mdstorm._spark.mosaic_loader import is_mosaic_loader
from mdstorm.errors import NullValueError, UnsupportedArgumentError
from mdstorm.predicates import in_set
from mdstorm.spark import SparkDatasetConverter


class Dataset:
    def __init__(self, **arguments: Any) -> None:
        self.arguments = arguments


class Loader:
    def __init__(self, dataset: Dataset, **arguments: Any) -> None:
        self.dataset = dataset
        self.arguments = arguments


class World:
    rank, num_ranks = 1, 4

    @classmethod
    def detect(cls) -> "World":
        return cls()


@pytest.fixture(autouse=True)
def streaming(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the stand-in where MosaicML Streaming would be."""
    module = ModuleType("streaming")
    members = {"StreamingDataset": Dataset, "StreamingDataLoader": Loader, "__path__": []}
    vars(module).update(members)
    monkeypatch.setitem(sys.modules, "streaming", module)
    monkeypatch.setitem(sys.modules, "streaming.base", ModuleType("streaming.base"))
    monkeypatch.setitem(sys.modules, "streaming.base.world", SimpleNamespace(World=World))  # type: ignore[arg-type]


def loader_of(converter: SparkDatasetConverter, function: Any = Loader, **arguments: Any) -> Loader:
    with converter.make_torch_dataloader(4, data_loader_fn=function, **arguments) as loader:
        assert isinstance(loader, Loader)
        return loader


def test_it_is_known_by_its_class(monkeypatch: pytest.MonkeyPatch) -> None:
    class Sub(Loader):
        pass

    assert is_mosaic_loader(Loader)
    assert is_mosaic_loader(functools.partial(functools.partial(Sub, num_workers=2), pin=True))
    assert not is_mosaic_loader(dict)
    assert not is_mosaic_loader(lambda **_: None)
    monkeypatch.delitem(sys.modules, "streaming")
    assert not is_mosaic_loader(Loader)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, {"shuffle": True, "shuffle_block_size": None}),
        ({"seed": 5}, {"shuffle": True, "shuffle_block_size": None, "shuffle_seed": 5}),
        (
            {"shuffle_row_groups": False, "shuffling_queue_capacity": 64},
            {"shuffle": True, "shuffle_block_size": 64},
        ),
        (
            {"shuffle_row_groups": False, "shuffle_rows": True, "order": "elastic"},
            {"shuffle": True, "shuffle_block_size": None},
        ),
    ],
)
def test_it_shuffles_as_it_is_told(
    ten: SparkDatasetConverter, arguments: dict[str, Any], expected: dict[str, Any]
) -> None:
    found = loader_of(ten, **arguments).dataset.arguments
    assert {key: found[key] for key in found if key.startswith("shuffle")} == expected


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"num_epochs": 2}, "each iteration over it is one epoch"),
        ({"transform_spec": TransformSpec()}, "transform_spec"),
        ({"predicate": in_set([1], "number")}, "predicate"),
        ({"schema_fields": ["number"]}, "schema_fields"),
        ({"order": "exact"}, "order='exact'"),
        ({"fill_nulls": {"number": 0}}, "fill_nulls"),
        ({"shuffle_row_drop_partitions": 2}, "shuffle_row_drop_partitions=2"),
        ({"cur_shard": 0, "shard_count": 4}, "which says 1 of 4"),
    ],
)
def test_what_it_cannot_do_is_refused(
    ten: SparkDatasetConverter, arguments: dict[str, Any], reason: str
) -> None:
    with pytest.raises(UnsupportedArgumentError, match=reason):
        loader_of(ten, **arguments)


def test_some_of_the_shards_are_refused(ten: SparkDatasetConverter) -> None:
    some = SparkDatasetConverter(ten.cache_dir_url, ten.file_urls[::-1], 10)
    with pytest.raises(UnsupportedArgumentError, match="it reads whole datasets"):
        loader_of(some)


def test_what_it_does_anyway_is_not(ten: SparkDatasetConverter) -> None:
    loader_of(ten, num_epochs=1, cur_shard=1, shard_count=4, schema_fields=None, cache_type="null")


def test_nulls_that_it_does_not_know_of_are_refused(tmp_path: Path) -> None:
    fields = {"n": "long", "x": "double"}
    converter = converter_of(tmp_path / "nulls", {"n": [1, 2], "x": [0.5, None]}, fields)
    loader_of(converter)
    converter = converter_of(tmp_path / "more", {"n": [1, None], "x": [0.5, None]}, fields)
    with pytest.raises(NullValueError, match="column 'n' holds 1 null"):
        loader_of(converter)
