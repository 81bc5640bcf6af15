"""What readers, and loaders over them, say they have waited for."""

from pathlib import Path
from typing import Any

import pytest
from tests.compat.readers import ItemReader, batch_reader, row_reader, write_parquet
from tests.mds_backend.clocks import Clock
from tests.mds_backend.small_datasets import write_numbers

from mdstorm._spark.converter_files import ReadFiles
from mdstorm.errors import UnsupportedArgumentError
from mdstorm.pytorch import BatchedDataLoader, DataLoader
from mdstorm.spark import SparkDatasetConverter
from mdstorm.transform import TransformSpec
from mdstorm_backend.loaders.loader_statistics import PassRecorders

pytestmark = pytest.mark.newest

ROWS, GROUPS = 12, 3


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Twelve rows in three row groups."""
    return write_parquet(tmp_path_factory.mktemp("twelve"), {"id": range(ROWS)})


def test_batches_of_a_reader_are_row_groups(url: str) -> None:
    reader = batch_reader(url, num_epochs=2)
    assert len(list(reader)) == 2 * GROUPS
    found = reader.statistics()
    assert (found.passes, found.batches, found.rows) == (1, 2 * GROUPS, 2 * ROWS)
    assert found.shards >= GROUPS
    assert found.decode_seconds > 0


def test_rows_are_counted_with_their_row_groups(url: str) -> None:
    reader = row_reader(url, num_epochs=1)
    for _ in range(5):
        next(reader)
    found = reader.statistics()
    assert (found.batches, found.rows) == (2, 8)


@pytest.mark.parametrize("kind", [DataLoader, BatchedDataLoader])
def test_a_loader_over_a_reader_counts_for_both(kind: Any, url: str) -> None:
    reader = batch_reader(url, num_epochs=1)
    loader = kind(reader, batch_size=5)
    for passes in (1, 2):
        assert len(list(loader)) == 3
        found = loader.statistics()
        assert (found.passes, found.batches, found.rows) == (passes, passes * 3, passes * ROWS)
        assert found == reader.statistics()
    assert loader.statistics(last_pass=True).batches == 3


def test_a_transform_is_what_a_reader_waits_for(url: str) -> None:
    clock = Clock()

    def slow(frame: Any) -> Any:
        clock.advance(3)
        return frame

    spec = TransformSpec(slow)
    reader = batch_reader(url, workers_count=1, reader_pool_type="dummy", transform_spec=spec)
    reader._mdstorm_recorders._clock = clock
    assert len(list(reader)) == GROUPS
    found = reader.statistics()
    assert found.transform_seconds == 3 * GROUPS
    assert found.waited_for_transforms == 3 * (GROUPS - 1)
    assert found.verdict.cause == "transforms"


def test_a_reader_of_another_kind_counts_nothing() -> None:
    loader = DataLoader(ItemReader([], batched=True))
    with pytest.raises(UnsupportedArgumentError, match="make_batch_reader"):
        loader.statistics()


def test_opening_the_dataset_is_part_of_the_first_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, opened = Clock(), ReadFiles.dataset

    def slow(files: ReadFiles) -> Any:
        clock.advance(3)
        return opened(files)

    dataset = write_numbers(tmp_path / "numbers", ROWS)
    converter = SparkDatasetConverter(dataset.url, dataset.file_urls, ROWS)
    monkeypatch.setattr(ReadFiles, "dataset", slow)
    loader: Any = converter.make_torch_dataloader(batch_size=4, num_epochs=1)
    loader._mdstorm.recorders = PassRecorders(clock)
    assert sum(len(batch["number"]) for batch in loader) == ROWS
    assert loader.statistics().startup_seconds == 3
    assert loader.statistics().verdict.cause == "startup"
