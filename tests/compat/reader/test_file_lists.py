"""Lists of files in the place of a directory: shards of MDS, and files of Parquet."""

from pathlib import Path
from typing import Any

import pytest
from tests.compat.readers import IN_ORDER, write_parquet
from tests.mds_backend.small_datasets import write_numbers

from mdstorm import convert
from mdstorm.errors import (
    DatasetNotFoundError,
    InvalidArgumentError,
    MDStormError,
    UnsupportedArgumentError,
)
from mdstorm.fs_utils import FilesystemResolver, get_filesystem_and_path_or_paths
from mdstorm.reader import make_batch_reader, make_reader
from mdstorm.spark import make_spark_converter
from mdstorm_backend.cache import CacheOptions
from mdstorm_backend.datasets import Dataset, open_dataset


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    """Numbers from 0 in several shards."""
    dataset = write_numbers(tmp_path / "mds", 500)
    assert len(dataset.shard_sizes) > 3
    return dataset


def numbers(urls: Any, **arguments: Any) -> list[list[int]]:
    with make_batch_reader(urls, **IN_ORDER, **arguments) as reader:
        return [batch.number.tolist() for batch in reader]


def test_shards_are_batches_in_the_order_of_the_list(dataset: Dataset) -> None:
    everything = numbers(dataset.url)
    assert [n for batch in everything for n in batch] == list(range(500))
    assert numbers(dataset.file_urls) == numbers([dataset.url]) == everything
    assert numbers(dataset.file_urls[::-1]) == everything[::-1]
    assert numbers(dataset.file_urls[1]) == numbers([dataset.file_urls[1]]) == [everything[1]]


def test_a_state_of_the_list_is_one_of_the_dataset(dataset: Dataset) -> None:
    with make_batch_reader(dataset.file_urls, **IN_ORDER) as reader:
        first = next(reader).number.tolist()
        state = reader.state_dict()
    with make_batch_reader(dataset.url, **IN_ORDER) as reader:
        reader.load_state_dict(state)
        assert next(reader).number[0] == len(first)


def test_urls_may_be_spelled_otherwise(dataset: Dataset) -> None:
    urls = [url.replace("file:///", "file:/") for url in dataset.file_urls[:2]]
    assert numbers(urls) == numbers(dataset.file_urls[:2])


@pytest.mark.filterwarnings("ignore:Currently make_reader")
def test_path_objects_are_taken_where_urls_are(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = Path(dataset.location.path)
    assert numbers(directory) == numbers(directory / "") == numbers(dataset.url)
    assert numbers([Path(file[7:]) for file in dataset.file_urls]) == numbers(dataset.url)
    with make_reader(directory) as reader:
        assert len(list(reader)) == len(make_spark_converter(directory)) == 500
    write_parquet(directory.parent / "data", {"number": [1, 2]})
    monkeypatch.chdir(directory.parent)
    assert numbers(Path("data/part.parquet")) == [[1, 2]]
    assert len(convert(Path("data"), Path("out"))) == 2
    assert get_filesystem_and_path_or_paths(Path("data"))[1] == str(directory.parent / "data")
    assert FilesystemResolver(Path("data")).get_dataset_path() == str(directory.parent / "data")


def test_a_relative_path_is_told_its_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidArgumentError, match=rf"\(x/y\) .*: write file://{tmp_path}/x/y$"):
        numbers("x/y")


def test_a_file_of_parquet_is_percent_encoded_by_spark(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a b", {"number": [1, 2]})
    url = f"file://{tmp_path}/a%20b/part.parquet"
    assert numbers([url]) == numbers(url) == [[1, 2]]


@pytest.mark.parametrize(
    ("more", "error", "text"),
    [
        (["{}/part-9-9.00000.mds"], InvalidArgumentError, "is none of the"),
        (["{}/other.parquet"], InvalidArgumentError, "is none of the"),
        (["{}-elsewhere/part-0-0.00000.mds"], DatasetNotFoundError, "index.json"),
    ],
)
def test_other_files_are_refused(
    dataset: Dataset, more: list[str], error: type[MDStormError], text: str
) -> None:
    urls = [*dataset.file_urls, *(url.format(dataset.url) for url in more)]
    with pytest.raises(error, match=text):
        numbers(urls)


def test_a_file_system_is_for_parquet(dataset: Dataset) -> None:
    with pytest.raises(UnsupportedArgumentError, match="filesystem= reads Parquet files"):
        numbers(dataset.file_urls, filesystem=object())


def test_some_shards_come_from_the_cache_of_all(dataset: Dataset, tmp_path: Path) -> None:
    cache = CacheOptions(directory=str(tmp_path / "cache"))
    whole = open_dataset(dataset.url, cache=cache)
    whole[0]
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*.mds")}
    part = whole.with_shards([0])
    assert (len(part), part.whole, part[1]) == (whole.shard_sizes[0], whole.fingerprint, whole[1])
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert whole.with_shards(range(len(whole.shard_sizes))) is whole
