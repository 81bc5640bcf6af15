"""``order="elastic"``: MosaicML Streaming's order under the converter."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.compat.spark.converters import Read, converter_of, numbers, with_either

from mdstorm.spark import SparkDatasetConverter
from mdstorm.transform import TransformSpec
from mdstorm_backend import StreamingDataLoader, StreamingDataset

ELASTIC: dict[str, Any] = {"order": "elastic", "seed": 7}


@pytest.fixture
def fifty(tmp_path: Path) -> SparkDatasetConverter:
    """The numbers from 0 to 49 in five shards."""
    return converter_of(tmp_path / "fifty", {"number": range(50)}, {"number": "long"}, tasks=5)


@with_either
def test_rows_come_as_from_the_streaming_dataset(fifty: SparkDatasetConverter, read: Read) -> None:
    source = StreamingDataset(
        local=fifty.cache_dir_url, batch_size=8, shuffle=True, shuffle_seed=7, num_epochs=2
    )
    loader = StreamingDataLoader(source, batch_size=8)
    found = numbers(read(fifty, batch_size=8, num_epochs=2, **ELASTIC))
    assert found == [batch["number"].tolist() for batch in loader]
    assert [len(batch) for batch in found] == [8, 8, 8, 8, 8, 8, 2] * 2


def test_a_transform_gets_the_rows_of_a_batch(fifty: SparkDatasetConverter) -> None:
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


def test_an_own_loader_gets_the_order(fifty: SparkDatasetConverter) -> None:
    def reader_of(reader: Any, **_: Any) -> Any:
        return SimpleNamespace(reader=reader, join=lambda: None, stop=lambda: None)

    with fifty.make_torch_dataloader(
        8, num_epochs=1, data_loader_fn=reader_of, **ELASTIC
    ) as loader:
        found = [n for batch in loader.reader for n in batch.number.tolist()]
    plain = fifty.make_torch_dataloader(10, num_epochs=1, **ELASTIC)
    assert found == [n for batch in plain for n in batch["number"].tolist()]


def test_all_rows_are_one_batch_of_each_epoch(fifty: SparkDatasetConverter) -> None:
    with fifty.make_torch_dataloader(None, num_epochs=2, **ELASTIC) as loader:
        assert [len(batch["number"]) for batch in loader] == [50, 50]
