"""`on_corrupt="skip"` in converters and readers: damaged shards and row groups are skipped."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.kit.readers import write_parquet
from tests.unit.compat.spark.converters import IN_ORDER, Read, converter_of, with_either

from mdstorm.errors import InvalidArgumentError, UnsupportedArgumentError
from mdstorm.pytorch import DataLoader
from mdstorm.reader import make_batch_reader
from mdstorm.spark import SparkDatasetConverter, make_spark_converter

ROWS, PER_SHARD = 40, 10
COLUMNS = {"n": range(ROWS), "text": [f"text {n}" for n in range(ROWS)]}
DAMAGED = set(range(10, 20))
SOUND = [n for n in range(ROWS) if n not in DAMAGED]


def in_mds(directory: Path) -> SparkDatasetConverter:
    fields = {"n": "long", "text": "string"}
    converter = converter_of(directory, COLUMNS, fields, tasks=ROWS // PER_SHARD)
    shard = Path(converter.file_urls[1].removeprefix("file://"))
    shard.write_bytes(shard.read_bytes()[:40])
    return converter


def in_parquet(directory: Path) -> SparkDatasetConverter:
    """Write a Parquet file and damage the data in its second row group."""
    url = write_parquet(directory, COLUMNS, row_group_size=PER_SHARD)
    path = directory / "part.parquet"
    column = pq.read_metadata(path).row_group(1).column(0)
    start = column.dictionary_page_offset or column.data_page_offset
    content = bytearray(path.read_bytes())
    content[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(content)
    return make_spark_converter(url)


with_both = pytest.mark.parametrize("write", [in_mds, in_parquet], ids=["mds", "parquet"])


@with_either
@with_both
def test_damaged_rows_are_skipped_without_changing_the_number_of_batches(
    tmp_path: Path, write: Any, read: Read
) -> None:
    batches = read(write(tmp_path / "data"), on_corrupt="skip", batch_size=4, **IN_ORDER)
    assert [n for batch in batches for n in batch["n"]] == SOUND
    assert len(batches) == ROWS // 4


def test_readers_skip_damaged_row_groups_and_loaders_count_them(tmp_path: Path) -> None:
    (url,) = {in_parquet(tmp_path / "data").cache_dir_url}
    with make_batch_reader(url, on_corrupt="skip", shuffle_row_groups=False) as reader:
        assert [int(n) for batch in reader for n in batch.n] == SOUND
    with DataLoader(make_batch_reader(url, on_corrupt="skip", shuffle_row_groups=False), 8) as made:
        assert [n for batch in made for n in batch["n"].tolist()] == SOUND
        assert made.statistics().skipped == PER_SHARD  # type: ignore[attr-defined]


def test_invalid_on_corrupt_or_skip_with_row_cache_raises_error(tmp_path: Path) -> None:
    converter = in_mds(tmp_path / "data")
    with pytest.raises(InvalidArgumentError, match="on_corrupt"):
        converter.make_torch_dataloader(on_corrupt="ignore")  # type: ignore[arg-type]
    with pytest.raises(UnsupportedArgumentError, match="on_corrupt='skip'"):
        converter.make_torch_dataloader(
            on_corrupt="skip",
            cache_type="local-disk",
            cache_location=str(tmp_path / "cache"),
            cache_size_limit=1 << 20,
            cache_row_size_estimate=100,
        )
