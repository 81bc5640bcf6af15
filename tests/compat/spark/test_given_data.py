"""A path in the place of a DataFrame: the data are read where they are, and stay."""

import logging
import pickle
from pathlib import Path

import pytest
from tests.compat.spark.converters import IN_ORDER, TABLE, Read, with_either, with_torch
from tests.mds_backend.convert.parquet_files import write
from tests.mds_backend.small_datasets import write_numbers

from mdstorm._datasets.sources import open_stored
from mdstorm._spark.make_converter import databricks_path
from mdstorm.errors import UnsupportedURLError
from mdstorm.spark import make_spark_converter
from mdstorm.spark.spark_dataset_converter import register_delete_dir_handler

pytestmark = pytest.mark.usefixtures("default_delete_handler")


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.rglob("*"))


@with_either
@pytest.mark.parametrize("form", ["file://{}", "file:{}", "{}", "{}/", "{}/*.parquet"])
def test_parquet_is_read_where_it_is(data: Path, read: Read, form: str) -> None:
    path = form.format(data)
    converter = make_spark_converter(path)
    assert (converter.cache_dir_url, len(converter)) == (path, 6)
    assert converter.file_urls == [f"file://{data}/{n}.parquet" for n in range(2)]
    (batch,) = read(converter, schema_fields=["id", "x"], **IN_ORDER)
    assert batch == {"id": list(range(6)), "x": [0.0, 0.25, 0.5, 0.75, 1.0, 1.25]}
    assert not (data.parent / "cache").exists()


@with_either
def test_mds_is_read_where_it_is(tmp_path: Path, read: Read) -> None:
    dataset = write_numbers(tmp_path / "mds", 500)
    converter = make_spark_converter(str(tmp_path / "mds"))
    assert (converter.file_urls, len(converter)) == (dataset.file_urls, 500)
    found = [n for batch in read(converter, **IN_ORDER) for n in batch["number"]]
    assert found == list(range(500))


@pytest.mark.parametrize("kind", ["parquet", "mds"])
def test_data_of_the_user_are_never_deleted(
    data: Path, tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Petastorm removed them."""
    directory = data
    if kind == "mds":
        directory = tmp_path / "mds"
        write_numbers(directory, 10)
    before = names(directory)
    deleted: list[str] = []
    register_delete_dir_handler(deleted.append)
    converter = make_spark_converter(f"file://{directory}")
    for one in (converter, pickle.loads(pickle.dumps(converter))):  # noqa: S301
        with caplog.at_level(logging.WARNING, "mdstorm"):
            one.delete()
        assert "it is not deleted" in caplog.text
    assert (names(directory), deleted) == (before, [])


def test_other_arguments_are_ignored(data: Path) -> None:
    converter = make_spark_converter(str(data), "many", "no codec", "no dtype")
    (batch,) = with_torch(converter, schema_fields=["x"], **IN_ORDER)
    assert batch["x"][1] == 0.25


def test_the_columns_of_partitions_are_missing_as_in_petastorm(tmp_path: Path) -> None:
    for day in (1, 2):
        write(tmp_path / "data" / f"day={day}", TABLE)
    converter = make_spark_converter(f"file://{tmp_path}/data")
    assert len(converter) == 12
    (batch,) = with_torch(converter, **{**IN_ORDER, "batch_size": 50})
    assert list(batch) == ["id", "x", "s"]


def test_neither_a_session_nor_a_conf_is_needed(
    monkeypatch: pytest.MonkeyPatch, data: Path
) -> None:
    from mdstorm._spark import make_converter

    monkeypatch.delattr(make_converter, "session_of")
    assert len(make_spark_converter(str(data))) == 6


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("dbfs:/xx/yy", "file:/dbfs/xx/yy"),
        ("dbfs:///xx/yy", "file:/dbfs/xx/yy"),
        ("file:/dbfs/xx", "file:/dbfs/xx"),
        ("file:///dbfs/xx", "file:///dbfs/xx"),
        ("dbfs:/Volumes/a/b", "file:/dbfs/Volumes/a/b"),
    ],
)
def test_paths_on_databricks(monkeypatch: pytest.MonkeyPatch, path: str, expected: str) -> None:
    assert databricks_path(path) == path
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "15.4")
    assert databricks_path(path) == expected


@pytest.mark.parametrize(
    "path", ["dbfs://xx/yy", "/dbfs/x", "s3://bucket/x", "/Volumes/a/b/c", "file:/dbfs", "dbfs:x"]
)
def test_other_paths_on_databricks_are_refused(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "15.4")
    text = "On databricks runtime, if .* must be a dbfs fuse path like"
    with pytest.raises(UnsupportedURLError, match=text) as caught:
        databricks_path(path)
    assert isinstance(caught.value, ValueError)


def test_a_name_may_look_like_a_pattern(tmp_path: Path) -> None:
    write(tmp_path / "a[1]", TABLE)
    assert len(open_stored(str(tmp_path / "a[1]"))) == 6
