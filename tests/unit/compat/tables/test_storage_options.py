"""Converters over a path accept its storage options, as readers do."""

import pickle
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kit.servers.s3 import BUCKET, S3Server

from mdstorm.errors import ArgumentTypeError, CredentialsError, InvalidArgumentError
from mdstorm.spark import SparkDatasetConverter, make_spark_converter
from mdstorm_backend.storage import Location

ROWS = list(range(20))
pytestmark = pytest.mark.usefixtures("fresh_filesystems")


@pytest.fixture
def options(s3_without_keys: S3Server, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The storage options needed to read the data at `URL`."""
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    given = {"endpoint_url": s3_without_keys.url, "key": "testing", "secret": "testing-secret"}
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"n": ROWS}), sink, row_group_size=5)
    Location.of(URL, given).write("a.parquet", [sink.getvalue().to_pybytes()])
    return given


URL = f"s3://{BUCKET}/converter-options"


def by_torch(converter: SparkDatasetConverter, **options: Any) -> list[int]:
    with converter.make_torch_dataloader(batch_size=7, num_epochs=1, **options) as loader:
        return sorted(n for batch in loader for n in batch["n"].tolist())


def by_own_loader(converter: SparkDatasetConverter) -> list[int]:
    def read(reader: Any, **_: Any) -> Any:
        return [n for batch in reader for n in batch.n.tolist()]

    made = converter.make_torch_dataloader(num_epochs=1, data_loader_fn=read)
    with made as loader:
        return sorted(loader)


@pytest.mark.long
def test_converter_over_path_reads_with_its_storage_options(options: dict[str, Any]) -> None:
    converter = make_spark_converter(URL, storage_options=options)
    assert len(converter) == len(ROWS)
    assert by_torch(converter) == by_own_loader(converter) == ROWS
    dataset = converter.make_tf_dataset(batch_size=7, num_epochs=1)
    assert sorted(n for batch in dataset for n in batch.n.numpy().tolist()) == ROWS
    assert by_torch(converter, storage_options={**options, "key": "another"}) == ROWS


def test_converter_with_storage_options_is_pickled_only_without_secrets(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    converter = make_spark_converter(URL, storage_options=options)
    with pytest.raises(InvalidArgumentError, match="which would be pickled") as caught:
        pickle.dumps(converter)
    assert "testing-secret" not in f"{caught.value}{converter!r}"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", options.pop("key"))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", options.pop("secret"))
    converter = make_spark_converter(URL, storage_options=options)
    assert by_torch(pickle.loads(pickle.dumps(converter))) == ROWS  # noqa: S301


def test_wrong_or_incomplete_storage_options_raise_error(options: dict[str, Any]) -> None:
    wrong: Any = "endpoint"
    with pytest.raises(ArgumentTypeError, match="storage_options must be a dict"):
        make_spark_converter(URL, storage_options=wrong)
    with pytest.raises(CredentialsError):
        make_spark_converter(URL, storage_options={"endpoint_url": options["endpoint_url"]})


@pytest.mark.long
def test_frame_with_storage_options_raises_error(spark: Any, tmp_path: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="storage_options apply to a path"):
        make_spark_converter(
            spark.range(3),
            parent_cache_dir_url=f"file://{tmp_path}",
            storage_options={"endpoint_url": "x"},
        )
