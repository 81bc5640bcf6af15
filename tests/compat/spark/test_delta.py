"""Converters over Delta tables."""

import pickle
from pathlib import Path
from typing import Any

import pytest
from tests.compat.spark.converters import IN_ORDER, Read, with_either, with_torch
from tests.delta_tables import kill, two_versions

from mdstorm.errors import ArgumentTypeError, InvalidArgumentError
from mdstorm.reader import make_batch_reader
from mdstorm.spark import SparkDatasetConverter, make_spark_converter

pytestmark = pytest.mark.usefixtures("default_delete_handler")

ALIVE = [1, 2, 4]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return two_versions(tmp_path / "table")


@with_either
def test_a_converter_reads_live_rows(table: Path, read: Read) -> None:
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
def test_a_converter_keeps_to_its_version(table: Path, read: Read) -> None:
    newest, first = make_spark_converter(str(table)), make_spark_converter(str(table), version=0)
    kill(table, {"k%3Da/f.parquet": [0, 1, 2, 3]})
    options = {"schema_fields": ["id"], **IN_ORDER}
    assert read(newest, **options) == [{"id": ALIVE}]
    assert read(first, **options) == [{"id": list(range(5))}]
    assert len(make_spark_converter(str(table), timestamp="2100-01-01")) == 1


def test_a_loader_of_the_users_own_reads_the_same_version(table: Path) -> None:
    converter = make_spark_converter(str(table))
    kill(table, {"k%3Da/f.parquet": [0, 1, 2, 3]})

    def rows(reader: Any, batch_size: int, shuffling_queue_capacity: int) -> list[int]:
        return [int(n) for batch in reader for n in batch.id]

    with converter.make_torch_dataloader(num_epochs=1, data_loader_fn=rows) as found:
        assert found == ALIVE


def test_a_converter_by_hand_over_files_of_a_table_is_refused(table: Path) -> None:
    url = f"file://{table}"
    converter = SparkDatasetConverter(url, [f"{url}/k=a/f.parquet"], 5)
    with pytest.raises(NotImplementedError, match="is a Delta table, whose files may hold"):
        with_torch(converter, **IN_ORDER)


def test_the_version_belongs_to_the_converter(table: Path) -> None:
    converter = make_spark_converter(str(table))
    for make in (converter.make_torch_dataloader, converter.make_tf_dataset):
        with pytest.raises(ArgumentTypeError, match="converter knows the version of its table"):
            make(version=0)
    with make_batch_reader(f"file://{table}", version=0) as reader:
        assert len(reader.dataset) == 5


@pytest.mark.usefixtures("cache_dir")
def test_frames_have_no_version(spark: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="use Spark, spark"):
        make_spark_converter(spark.range(1), version=1)
