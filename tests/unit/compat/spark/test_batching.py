"""Batches, epochs, shares and orders are the same in both frameworks."""

from itertools import chain, islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.unit.compat.spark.converters import (
    IN_ORDER,
    Read,
    converter_of,
    numbers,
    with_either,
    with_tf,
    with_torch,
)

from mdstorm import TransformSpec
from mdstorm.errors import InvalidArgumentError
from mdstorm.spark import SparkDatasetConverter
from mdstorm_backend import StreamingDataLoader, StreamingDataset


@with_either
def test_loader_pass_is_infinite_by_default(ten: SparkDatasetConverter, read: Read) -> None:
    batches = numbers(read(ten, batch_size=4, shuffle_row_groups=False, take=1000))
    assert len(batches) == 1000
    assert list(chain(*batches)) == [i % 10 for i in range(4000)]


def test_batch_size_none_means_default_in_tensorflow_and_all_rows_in_torch(
    ten: SparkDatasetConverter,
) -> None:
    batches = numbers(with_tf(ten, batch_size=None, num_epochs=5))
    assert [len(batch) for batch in batches] == [32, 18]
    batches = with_torch(ten, batch_size=None, num_epochs=2, shuffle_row_groups=False)
    assert numbers(batches) == [[*range(10), *range(10)]]
    thrice = TransformSpec(lambda frame: frame.loc[frame.index.repeat(3)])
    (batch,) = with_torch(ten, batch_size=None, num_epochs=2, transform_spec=thrice)
    assert len(batch["number"]) == 60


def rows(batches: Any) -> list[list[int]]:
    columns = [b["number"] if isinstance(b, dict) else b.number.numpy() for b in batches]
    return [column.tolist() for column in columns]


@pytest.mark.parametrize("make", ["make_torch_dataloader", "make_tf_dataset"])
def test_loader_passes_are_complete_before_and_after_with_statement(
    ten: SparkDatasetConverter, make: str
) -> None:
    loader = getattr(ten, make)(batch_size=4, **IN_ORDER)
    expected = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert rows(loader) == expected
    for _ in range(2):
        with loader as entered:
            assert rows(entered) == expected
    assert rows(loader) == expected


@with_either
def test_world_argument_selects_rank_and_count(ten: SparkDatasetConverter, read: Read) -> None:
    expected = read(ten, cur_shard=1, shard_count=3, batch_size=3, **IN_ORDER)
    assert read(ten, world=(1, 3), batch_size=3, **IN_ORDER) == expected
    with pytest.raises(InvalidArgumentError, match="cur_shard and shard_count: pass only one"):
        read(ten, world=(1, 3), cur_shard=0, shard_count=3)


@with_either
def test_loader_arguments_accept_numpy_integers(ten: SparkDatasetConverter, read: Read) -> None:
    names = ("cur_shard", "shard_count", "batch_size", "num_epochs", "workers_count", "seed")
    values = dict(zip(names, map(np.int64, (1, 2, 5, 1, 2, 5)), strict=True))
    (batch,) = read(ten, **values, shuffling_queue_capacity=np.int32(20))
    assert sorted(batch["number"]) == [5, 6, 7, 8, 9]


ROWS, SHARDS = 96, 8


@pytest.fixture
def many(tmp_path: Path) -> SparkDatasetConverter:
    """96 numbers in 8 shards."""
    columns = {"number": range(ROWS)}
    return converter_of(tmp_path / "many", columns, {"number": "long"}, tasks=SHARDS)


def rows_of(converter: SparkDatasetConverter, read: Read, **arguments: Any) -> list[int]:
    arguments = {**IN_ORDER, "batch_size": 10, **arguments}
    return list(chain(*(batch["number"] for batch in read(converter, **arguments))))


@with_either
def test_shuffling_queue_shuffles_windows_of_whole_shards(
    many: SparkDatasetConverter, read: Read
) -> None:
    rows = rows_of(many, read, shuffling_queue_capacity=13, seed=5)
    assert rows != sorted(rows)
    for start in range(0, ROWS, 48):  # two windows of four shards: see `Windows`
        assert sorted(rows[start : start + 48]) == list(range(start, start + 48))
    for none in (None, 0, -1) if read is with_torch else (None, 0):
        assert rows_of(many, read, shuffling_queue_capacity=none) == list(range(ROWS))


ELASTIC: dict[str, Any] = {"order": "elastic", "seed": 7}


@pytest.fixture
def fifty(tmp_path: Path) -> SparkDatasetConverter:
    """The numbers from 0 to 49 in five shards."""
    return converter_of(tmp_path / "fifty", {"number": range(50)}, {"number": "long"}, tasks=5)


@with_either
def test_converter_elastic_order_matches_streaming_dataset(
    fifty: SparkDatasetConverter, read: Read
) -> None:
    source = StreamingDataset(
        local=fifty.cache_dir_url, batch_size=8, shuffle=True, shuffle_seed=7, num_epochs=2
    )
    loader = StreamingDataLoader(source, batch_size=8)
    found = numbers(read(fifty, batch_size=8, num_epochs=2, **ELASTIC))
    assert found == [batch["number"].tolist() for batch in loader]
    assert [len(batch) for batch in found] == [8, 8, 8, 8, 8, 8, 2] * 2


def test_transform_in_elastic_order_gets_one_batch_per_call(fifty: SparkDatasetConverter) -> None:
    sizes = []

    def double(frame: Any) -> Any:
        sizes.append(len(frame))
        return frame.assign(number=frame["number"] * 2)

    spec = TransformSpec(double)
    with fifty.make_torch_dataloader(
        20, num_epochs=1, transform_spec=spec, reader_pool_type="dummy", **ELASTIC
    ) as loader:
        found = [batch["number"].tolist() for batch in loader]
    plain = fifty.make_torch_dataloader(20, num_epochs=1, **ELASTIC)
    assert found == [[2 * n for n in batch["number"].tolist()] for batch in plain]
    assert sizes == [20, 20, 10]


def test_data_loader_fn_reader_has_elastic_order(fifty: SparkDatasetConverter) -> None:
    def reader_of(reader: Any, **_: Any) -> Any:
        return SimpleNamespace(reader=reader, join=lambda: None, stop=lambda: None)

    with fifty.make_torch_dataloader(
        8, num_epochs=1, data_loader_fn=reader_of, **ELASTIC
    ) as loader:
        found = [n for batch in loader.reader for n in batch.number.tolist()]
    plain = fifty.make_torch_dataloader(10, num_epochs=1, **ELASTIC)
    assert found == [n for batch in plain for n in batch["number"].tolist()]


def test_batch_size_none_in_elastic_order_yields_one_batch_per_epoch(
    fifty: SparkDatasetConverter,
) -> None:
    with fifty.make_torch_dataloader(None, num_epochs=2, **ELASTIC) as loader:
        assert [len(batch["number"]) for batch in loader] == [50, 50]


@pytest.fixture
def four_hundred(tmp_path: Path) -> SparkDatasetConverter:
    return converter_of(tmp_path / "four_hundred", {"n": range(400)}, {"n": "long"})


@pytest.mark.long
@pytest.mark.parametrize(
    ("make", "arguments"),
    [
        ("make_torch_dataloader", {"order": "exact"}),
        ("make_torch_dataloader", {"order": "elastic"}),
        ("make_tf_dataset", {}),  # TensorFlow reads ahead
        ("make_tf_dataset", {"prefetch": 0}),
    ],
)
def test_infinite_pass_is_logged_once_when_second_epoch_begins(
    four_hundred: SparkDatasetConverter, make: str, arguments: Any, caplog: pytest.LogCaptureFixture
) -> None:
    assert len(list(getattr(four_hundred, make)(100, num_epochs=3, **arguments))) == 12
    loader = getattr(four_hundred, make)(batch_size=100, **arguments)
    list(islice(loader, 4))
    assert not caplog.records
    for _ in range(2):
        list(islice(loader, 12))
    (record,) = (r for r in caplog.records if r.name.startswith("mdstorm"))
    assert "pass num_epochs=1 for one epoch" in record.getMessage()


def test_infinite_pass_whose_batches_tensorflow_takes_is_not_logged(
    four_hundred: SparkDatasetConverter, caplog: pytest.LogCaptureFixture
) -> None:
    dataset = four_hundred.make_tf_dataset(batch_size=100)
    assert len(list(dataset.take(9))) == 9
    assert not [r for r in caplog.records if r.name.startswith("mdstorm")]
