"""`SparkDatasetConverter.delete()` and the handler it calls."""

import logging
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import of_values
from tests.unit.compat.spark.converters import Read, with_either

from mdstorm.errors import DatasetNotFoundError
from mdstorm.spark import SparkDatasetConverter, make_spark_converter
from mdstorm.spark.spark_dataset_converter import register_delete_dir_handler
from mdstorm_backend.cache.space import list_cached

pytestmark = pytest.mark.usefixtures("default_delete_handler")


def path_of(converter: SparkDatasetConverter) -> Path:
    return Path(converter.cache_dir_url.removeprefix("file://"))


@of_values
def test_delete_removes_copy_but_not_parent_directory(spark: Any, cache_dir: Path) -> None:
    converter = make_spark_converter(spark.range(0, 10, 1, 3), compression_codec="gzip")
    assert converter.delete() is None
    assert cache_dir.is_dir()
    assert list(cache_dir.iterdir()) == []


@of_values
def test_delete_removes_cached_shards_of_copy(
    spark: Any, cache_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MDSTORM_CACHE_DIR", str(tmp_path / "cached"))
    converters = [
        make_spark_converter(spark.range(0, n, 1, 1), compression_codec="gzip") for n in (10, 11)
    ]
    for converter in converters:
        with converter.make_torch_dataloader(num_epochs=1) as loader:
            assert sum(len(batch["id"]) for batch in loader) == len(converter)
    assert len(list_cached()) == 2
    for kept, handler in ((1, None), (0, lambda url: None)):
        register_delete_dir_handler(handler)
        converters.pop().delete()
        assert [cached.url for cached in list_cached()] == [
            converter.cache_dir_url for converter in converters
        ]
        assert len(converters) == kept


def test_delete_keeps_files_that_mdstorm_did_not_write(
    ten: SparkDatasetConverter, caplog: pytest.LogCaptureFixture
) -> None:
    mine = path_of(ten) / "notes.txt"
    mine.write_text("mine")
    (path_of(ten) / "part-00000.parquet").touch()
    with caplog.at_level(logging.WARNING, "mdstorm"):
        ten.delete()
    assert {path.name for path in path_of(ten).iterdir()} == {"notes.txt", "part-00000.parquet"}
    assert mine.read_text() == "mine"
    (record,) = caplog.records
    assert (
        "still contains 2 files that mdstorm did not write, such as notes.txt"
        in record.getMessage()
    )


def test_second_delete_does_nothing(
    ten: SparkDatasetConverter, caplog: pytest.LogCaptureFixture
) -> None:
    other = SparkDatasetConverter(ten.cache_dir_url, ten.file_urls, 10)
    for converter in (ten, ten, other):
        converter.delete()
    assert not path_of(ten).exists()
    assert not caplog.records


@with_either
def test_second_converter_over_deleted_copy_raises_dataset_not_found(
    ten: SparkDatasetConverter, read: Read
) -> None:
    other = SparkDatasetConverter(ten.cache_dir_url, ten.file_urls, 10)
    ten.delete()
    with pytest.raises(DatasetNotFoundError, match="there is no dataset at") as caught:
        read(other, num_epochs=1)
    assert isinstance(caught.value, RuntimeError)
    assert caught.value.url == ten.cache_dir_url


class TestHandler:
    """Handlers registered with `register_delete_dir_handler`."""

    def test_delete_handler_gets_url_and_replaces_removal(self, ten: SparkDatasetConverter) -> None:
        urls: list[str] = []
        register_delete_dir_handler(urls.append)
        ten.delete()
        assert urls == [ten.cache_dir_url]
        assert path_of(ten).exists()
        register_delete_dir_handler(None)  # restores the default handler
        ten.delete()
        assert not path_of(ten).exists()

    def test_delete_raises_handler_error(self, ten: SparkDatasetConverter) -> None:
        def fail(url: str) -> None:
            raise PermissionError(url)

        register_delete_dir_handler(fail)
        with pytest.raises(PermissionError, match=ten.cache_dir_url):
            ten.delete()

    def test_deleted_copy_is_not_reused_even_if_handler_keeps_files(
        self, spark: Any, cache_dir: Path
    ) -> None:
        first = make_spark_converter(spark.range(3))
        register_delete_dir_handler(lambda url: None)
        first.delete()
        assert make_spark_converter(spark.range(3)).cache_dir_url != first.cache_dir_url
