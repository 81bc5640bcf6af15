"""What is said where an index was looked for and something else was found."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mdstorm_backend import open_dataset
from mdstorm_backend.errors import DatasetNotFoundError
from mdstorm_backend.maintenance import inspect, reindex, verify
from mdstorm_backend.storage import Location
from mdstorm_backend.tables import other_format


def write_parquet(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"a": [1, 2]}), path)
    return path


def parquet_file(directory: Path) -> Path:
    return write_parquet(directory / "no_ending")


def parquet_files(directory: Path) -> Path:
    return write_parquet(directory / "part-0.snappy.parquet").parent


def partitions(directory: Path) -> Path:
    write_parquet(directory / "year=2024" / "month=5" / "part-0.parquet")
    return directory


def petastorm(directory: Path) -> Path:
    write_parquet(directory / "_common_metadata")
    return write_parquet(directory / "part-0.parquet").parent


def delta(directory: Path) -> Path:
    (directory / "_delta_log").mkdir()
    return write_parquet(directory / "part-0.parquet").parent


def iceberg(directory: Path) -> Path:
    write_parquet(directory / "data" / "part-0.parquet")
    (directory / "metadata").mkdir()
    (directory / "metadata" / "v1.metadata.json").touch()
    return directory


@pytest.mark.parametrize(
    ("make", "kind", "reader"),
    [
        (parquet_file, "a Parquet file", "make_batch_reader"),
        (parquet_files, "Parquet files", "make_batch_reader"),
        (partitions, "Parquet files", "make_batch_reader"),
        (petastorm, "Parquet files with _common_metadata, as Petastorm", "make_reader"),
        (delta, "a Delta table", "make_batch_reader"),
        (iceberg, "an Iceberg table", "make_batch_reader"),
    ],
)
def test_it_is_named_with_the_command_that_helps(
    make: Callable[[Path], Path], kind: str, reader: str, tmp_path: Path
) -> None:
    url = f"file://{make(tmp_path)}"
    for use in (open_dataset, inspect, verify, reindex):
        with pytest.raises(DatasetNotFoundError) as caught:
            use(url)
        text = str(caught.value)
        assert text.startswith(f"there is no MDS dataset at {url}, but {kind}")
        assert f"mdstorm convert {url} DST" in text
        assert f"mdstorm.{reader}({url!r})" in text


def test_tables_that_are_not_read_are_named(tmp_path: Path) -> None:
    (tmp_path / ".hoodie").mkdir()
    write_parquet(tmp_path / "data" / "part-0.parquet")
    with pytest.raises(DatasetNotFoundError, match="is a table of Hudi") as caught:
        inspect(str(tmp_path))
    assert "make_spark_converter(spark.read.format('hudi')" in str(caught.value)


def test_a_file_is_not_looked_for_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(DatasetNotFoundError):
        open_dataset(str(parquet_file(tmp_path)))
    assert not caplog.records


@pytest.mark.parametrize("name", ["text.csv", "directory", "absent"])
def test_nothing_is_said_of_anything_else(name: str, tmp_path: Path) -> None:
    (tmp_path / "text.csv").write_text("a,b")
    (tmp_path / "directory" / "inner").mkdir(parents=True)
    write_parquet(tmp_path / "directory" / "inner" / "part.parquet")
    assert other_format(Location.of(str(tmp_path / name))) is None
    with pytest.raises(DatasetNotFoundError, match=r"it has no index\.json"):
        open_dataset(str(tmp_path / name))


def test_a_storage_that_fails_is_the_callers_error() -> None:
    assert other_format(Location.of("https://localhost:1/x")) is None
