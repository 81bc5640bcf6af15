"""A conversion stores the files that a column names, and starts over if they have changed."""

import os
from pathlib import Path

import pyarrow as pa
import pytest
from tests.kit.parquet_files import write

from mdstorm_backend.convert import FileColumns, convert_parquet
from mdstorm_backend.errors import (
    DatasetExistsError,
    InvalidArgumentError,
    MissingFileError,
    StorageError,
)
from mdstorm_backend.parquet import ParquetDataset
from mdstorm_backend.storage import NamedFiles

ROWS = 100


@pytest.fixture
def source(tmp_path: Path) -> ParquetDataset:
    """A table of paths of images, a few of them null or repeated."""
    (tmp_path / "images").mkdir()
    for number in range(ROWS):
        (tmp_path / "images" / f"{number}.jpg").write_bytes(bytes([number]) * number)
    paths = [f"../images/{number % 90}.jpg" for number in range(ROWS)]
    table = pa.table({"id": range(ROWS), "path": [None, *paths[1:]]})
    return write(tmp_path / "table", table.slice(0, 60), table.slice(60), row_group_size=40)


def images(source: ParquetDataset, max_bytes: int = 1000) -> FileColumns:
    below = [os.path.dirname(source.location.path) + "/images"]
    return FileColumns({"image": "path"}, NamedFiles(source.location, below, max_bytes=max_bytes))


def test_converted_column_has_the_content_of_the_files(
    source: ParquetDataset, tmp_path: Path
) -> None:
    for workers in (1, 3):
        dataset = convert_parquet(
            source, f"{tmp_path}/{workers}", files=images(source), shard_size=2000, workers=workers
        )
        table = dataset.to_table()
        assert table.column_names == ["id", "path", "image"]
        expected = [None, *(bytes([n % 90]) * (n % 90) for n in range(1, ROWS))]
        assert table["image"].to_pylist() == expected
        assert table["id"].to_pylist() == [*range(ROWS)]
        assert dataset.schema["image"].null_count == 1
        assert len(dataset.shard_sizes) > 2


@pytest.mark.parametrize(("max_bytes", "rows"), [(1 << 28, 7), (1 << 30, 1), (1 << 32, 1)])
def test_files_of_a_batch_fit_into_an_arrow_array(
    source: ParquetDataset, max_bytes: int, rows: int
) -> None:
    batches = source.to_table().to_batches()
    added = images(source, max_bytes).added(batches, "this partition")
    assert max(batch.num_rows for batch in added) == rows


def test_error_names_column_row_and_file_and_leaves_nothing(
    source: ParquetDataset, tmp_path: Path
) -> None:
    (tmp_path / "images" / "75.jpg").unlink()
    expected = r"'image' of sample 75 of .*table, named by column 'path': .*images/75\.jpg does not"
    with pytest.raises(MissingFileError, match=expected):
        convert_parquet(source, str(tmp_path / "mds"), files=images(source))
    assert not (tmp_path / "mds").exists()


def test_columns_are_checked_before_anything_is_written(
    source: ParquetDataset, tmp_path: Path
) -> None:
    for columns, found in {
        ("image", "id"): "is of type",
        ("path", "path"): "choose another",
    }.items():
        files = FileColumns(dict([columns]), NamedFiles(source.location))
        with pytest.raises(InvalidArgumentError, match=found):
            convert_parquet(source, str(tmp_path / "mds"), files=files)
    assert not (tmp_path / "mds").exists()


def test_interrupted_conversion_resumes_only_with_the_same_files(
    source: ParquetDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing(NamedFiles):
        def read(self, path: str) -> bytes:
            if path.endswith("75.jpg"):
                raise StorageError("the store failed")
            return super().read(path)

    mds = str(tmp_path / "mds")
    working = images(source)
    failing = FileColumns(working.columns, Failing(source.location, [f"{tmp_path}/images"]))
    with pytest.raises(StorageError, match="the store failed"):
        convert_parquet(source, mds, files=failing, shard_size=2000, workers=1)
    done = {path.name for path in Path(mds).glob("*.mds")}
    assert done
    os.utime(tmp_path / "images" / "1.jpg", (5, 5))
    with pytest.raises(DatasetExistsError, match="--no-resume"):
        convert_parquet(source, mds, files=working, shard_size=2000)
    convert_parquet(source, mds, files=working, shard_size=2000, resume=False)


def test_identity_depends_on_the_files_and_is_unknown_without_a_listing(
    source: ParquetDataset, tmp_path: Path
) -> None:
    first = images(source).identity()
    assert first == images(source).identity()
    os.utime(tmp_path / "images" / "1.jpg", (5, 5))
    assert images(source).identity() not in (None, first)
    nowhere = {"s3://bucket/images": {"endpoint_url": "http://127.0.0.1:9"}}
    assert FileColumns({"image": "path"}, NamedFiles(None, nowhere)).identity() is None
