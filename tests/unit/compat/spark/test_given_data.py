"""Existing data: paths instead of a DataFrame, converters over given files, and Delta tables."""

import copy
import json
import logging
import pickle
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from tests.kit.delta_tables import kill, two_versions
from tests.kit.parquet_files import write
from tests.kit.small_datasets import write_numbers
from tests.unit.compat.spark.converters import IN_ORDER, TABLE, Read, with_either, with_torch

from mdstorm._spark.stored_data import databricks_path
from mdstorm.errors import (
    ArgumentTypeError,
    DatasetChangedError,
    DatasetNotFoundError,
    InvalidArgumentError,
    StateMismatchError,
    UnsupportedURLError,
)
from mdstorm.reader import make_batch_reader
from mdstorm.spark import SparkDatasetConverter, make_spark_converter
from mdstorm.spark.spark_dataset_converter import register_delete_dir_handler

pytestmark = pytest.mark.usefixtures("default_delete_handler")


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.rglob("*"))


@pytest.mark.matrix
@with_either
@pytest.mark.parametrize("form", ["file://{}", "file:{}", "{}", "{}/", "{}/*.parquet"])
def test_parquet_directory_is_read_in_place(data: Path, read: Read, form: str) -> None:
    path = form.format(data)
    converter = make_spark_converter(path)
    assert (converter.cache_dir_url, len(converter)) == (path, 6)
    assert converter.file_urls == [f"file://{data}/{n}.parquet" for n in range(2)]
    (batch,) = read(converter, schema_fields=["id", "x"], **IN_ORDER)
    assert batch == {"id": list(range(6)), "x": [0.0, 0.25, 0.5, 0.75, 1.0, 1.25]}
    assert not (data.parent / "cache").exists()


@with_either
def test_mds_directory_is_read_in_place(tmp_path: Path, read: Read) -> None:
    dataset = write_numbers(tmp_path / "mds", 500)
    converter = make_spark_converter(str(tmp_path / "mds"))
    assert (converter.file_urls, len(converter)) == (dataset.file_urls, 500)
    found = [n for batch in read(converter, **IN_ORDER) for n in batch["number"]]
    assert found == list(range(500))


@pytest.mark.parametrize("kind", ["parquet", "mds"])
def test_delete_of_in_place_converter_keeps_user_files(
    data: Path, tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Petastorm's `delete` would remove these files."""
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dtype": "float16"}, "dtype float16 is not supported"),
        ({"dtype": float}, "dtype .*float.* is not supported"),
        ({"cache_key": "one"}, "cache_key='one' applies to a copy, but '.*' is read in place"),
        ({"keep": True}, "keep=True applies to a copy"),
        ({"compression_codec": "snappy"}, "compression_codec='snappy' applies to a copy"),
    ],
)
def test_arguments_that_apply_to_copies_raise_error_for_data_in_place(
    data: Path, arguments: Any, message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        make_spark_converter(str(data), **arguments)


def test_shard_size_is_ignored_for_files_in_place(data: Path) -> None:
    converter = make_spark_converter(str(data), 1 << 20)
    (batch,) = with_torch(converter, schema_fields=["x"], **IN_ORDER)
    assert batch["x"][1] == 0.25


def test_partition_columns_are_omitted_as_in_petastorm(tmp_path: Path) -> None:
    for day in (1, 2):
        write(tmp_path / "data" / f"day={day}", TABLE)
    converter = make_spark_converter(f"file://{tmp_path}/data")
    assert len(converter) == 12
    (batch,) = with_torch(converter, **{**IN_ORDER, "batch_size": 50})
    assert list(batch) == ["id", "x", "s"]


def test_dbfs_urls_map_to_mount_on_databricks(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = {
        "dbfs:/xx/yy": "file:/dbfs/xx/yy",
        "dbfs:///xx/yy": "file:/dbfs/xx/yy",
        "file:/dbfs/xx": "file:/dbfs/xx",
        "file:///dbfs/xx": "file:///dbfs/xx",
        "dbfs:/Volumes/a/b": "file:/dbfs/Volumes/a/b",
    }
    assert [databricks_path(path) for path in expected] == [*expected]
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "15.4")
    assert [databricks_path(path) for path in expected] == [*expected.values()]
    for path in ("dbfs://x/y", "/dbfs/x", "s3://bucket/x", "/Volumes/a/b", "file:/dbfs", "dbfs:x"):
        with pytest.raises(UnsupportedURLError, match="must be a dbfs fuse path like"):
            databricks_path(path)
    with pytest.raises(UnsupportedURLError, match="Write it as file:/dbfs/x"):
        databricks_path("/dbfs/x")


def test_directory_name_with_glob_characters_is_read_literally(tmp_path: Path) -> None:
    write(tmp_path / "a[1]", TABLE)
    assert len(make_spark_converter(str(tmp_path / "a[1]"))) == 6


@with_either
def test_converter_over_parquet_files_keeps_their_order(data: Path, read: Read) -> None:
    urls = [f"file://{data}/1.parquet", f"file://{data}/0.parquet"]
    for directory in (f"file://{data}", None):
        for files, expected in ((urls, [4, 5, 0, 1, 2, 3]), (urls[:1], [4, 5])):
            converter = SparkDatasetConverter(directory, files, len(expected))
            (batch,) = read(converter, schema_fields=["id"], **IN_ORDER)
            assert batch["id"] == expected
    converter.delete()  # does nothing: without a directory, there is no copy
    assert len(list(data.glob("*.parquet"))) == 2


def test_state_from_different_shards_raises_state_mismatch(tmp_path: Path) -> None:
    dataset = write_numbers(tmp_path / "mds", 500)
    states = []
    for urls in (dataset.file_urls, dataset.file_urls[:2], dataset.file_urls[2:]):
        loader = SparkDatasetConverter(None, urls, 500).make_torch_dataloader(num_epochs=1)
        next(iter(loader))
        states.append((loader, loader.state_dict()))
    for loader, _ in states:
        for other, state in states:
            with nullcontext() if other is loader else pytest.raises(StateMismatchError):
                loader.load_state_dict(state)


@with_either
def test_files_outside_dataset_raise_error(tmp_path: Path, read: Read) -> None:
    dataset = write_numbers(tmp_path / "mds", 500)
    others = [dataset.file_urls[0], f"{dataset.url}/part-1-2.00000.mds"]
    for urls, text in ((others, "is not one of the .* shards"), ([], "is empty")):
        with pytest.raises(InvalidArgumentError, match=text):
            read(SparkDatasetConverter(dataset.url, urls, 5))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda shards: shards.pop(), "its index no longer lists all of the converter's files"),
        (lambda shards: shards[0].update(samples=1), r"its files had 500 rows, and now have \d+"),
        (lambda shards: shards[0]["raw_data"].update(bytes=9999), r"it had \d+ bytes, and now .*"),
    ],
    ids=["files", "rows", "bytes"],
)
def test_data_changed_after_the_converter_was_made_raise_error_naming_the_change(
    tmp_path: Path, change: Any, found: str
) -> None:
    write_numbers(tmp_path / "mds", 500, shard_size=1000)
    converter = make_spark_converter(str(tmp_path / "mds"))
    file = tmp_path / "mds" / "index.json"
    index = json.loads(file.read_text())
    change(index["shards"])
    file.write_text(json.dumps(index))
    message = rf"was changed after the converter was made \({found}\)\. Make the converter again"
    with pytest.raises(DatasetChangedError, match=message):
        with_torch(converter, **IN_ORDER)


def test_missing_files_raise_dataset_not_found_on_read(tmp_path: Path) -> None:
    for url in ("0.parquet", "100%25.parquet", "part-00000-0.00000.mds"):
        converter = SparkDatasetConverter(f"file://{tmp_path}", [f"file://{tmp_path}/{url}"], 1)
        with pytest.raises(DatasetNotFoundError) as caught, converter.make_torch_dataloader():
            pass
        assert isinstance(caught.value, RuntimeError)


ALIVE = [1, 2, 4]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return two_versions(tmp_path / "table")


@with_either
def test_converter_over_table_reads_live_rows(table: Path, read: Read) -> None:
    converter = make_spark_converter(f"file://{table}")
    assert (len(converter), converter.file_urls) == (3, [f"file://{table}"])
    for one in (converter, pickle.loads(pickle.dumps(converter))):  # noqa: S301
        (batch,) = read(one, schema_fields=["id", "k"], **IN_ORDER)
        assert batch["id"] == ALIVE
        assert [getattr(k, "decode", lambda k=k: k)() for k in batch["k"]] == ["a"] * 3
    assert pickle.loads(pickle.dumps(converter)).dataset_size == 3  # noqa: S301
    converter.delete()
    assert (table / "k=a" / "f.parquet").exists()


@with_either
def test_converter_over_table_keeps_its_version(table: Path, read: Read) -> None:
    newest, first = make_spark_converter(str(table)), make_spark_converter(str(table), version=0)
    kill(table, {"k%3Da/f.parquet": [0, 1, 2, 3]})
    options = {"schema_fields": ["id"], **IN_ORDER}
    assert read(newest, **options) == [{"id": ALIVE}]
    assert read(first, **options) == [{"id": list(range(5))}]
    assert len(make_spark_converter(str(table), timestamp="2100-01-01")) == 1


def test_data_loader_fn_reads_converter_table_version(table: Path) -> None:
    converter = make_spark_converter(str(table))
    kill(table, {"k%3Da/f.parquet": [0, 1, 2, 3]})

    def rows(reader: Any, batch_size: int, shuffling_queue_capacity: int) -> list[int]:
        return [int(n) for batch in reader for n in batch.id]

    with converter.make_torch_dataloader(num_epochs=1, data_loader_fn=rows) as found:
        assert found == ALIVE


def test_converter_over_some_files_of_table_raises_error(table: Path) -> None:
    url = f"file://{table}"
    converter = SparkDatasetConverter(url, [f"{url}/k=a/f.parquet"], 5)
    with pytest.raises(NotImplementedError, match="is a Delta table, whose files may hold"):
        with_torch(converter, **IN_ORDER)


def test_version_as_loader_argument_raises_error(table: Path) -> None:
    converter = make_spark_converter(str(table))
    for make in (converter.make_torch_dataloader, converter.make_tf_dataset):
        with pytest.raises(ArgumentTypeError, match="converter knows the version of its table"):
            make(version=0)
    with make_batch_reader(f"file://{table}", version=0) as reader:
        assert len(reader.dataset) == 5


@pytest.mark.usefixtures("cache_dir")
def test_version_argument_with_data_frame_raises_error(spark: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="use Spark, spark"):
        make_spark_converter(spark.range(1), version=1)


@pytest.mark.parametrize("is_used", [False, True])
def test_pickling_loader_with_secrets_raises_error(data: Path, *, is_used: bool) -> None:
    secrets = {"key": "AK", "secret": "s3cret"}
    made = make_spark_converter(data.as_uri(), storage_options=secrets)
    loader = made.make_torch_dataloader(num_epochs=1)
    if is_used:
        next(iter(loader))
    for one in (made, loader):
        with pytest.raises(InvalidArgumentError, match=r"contain \['key', 'secret'\]") as caught:
            pickle.dumps(one)
        assert "s3cret" not in str(caught.value)
    if not is_used:
        assert len(next(iter(copy.deepcopy(loader)))["id"]) == 6
