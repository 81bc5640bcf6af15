"""Lists of files instead of a directory URL, and the `reader.dataset` attribute."""

import copy
import pickle
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kit.parquet_files import open_parquet
from tests.kit.readers import IN_ORDER, write_parquet
from tests.kit.small_datasets import write_numbers

from mdstorm import convert
from mdstorm.errors import (
    CorruptDatasetError,
    InvalidArgumentError,
    MissingAttributeError,
)
from mdstorm.fs_utils import FilesystemResolver, get_filesystem_and_path_or_paths
from mdstorm.predicates import in_set
from mdstorm.reader import Reader, make_batch_reader, make_reader
from mdstorm.spark import make_spark_converter
from mdstorm_backend import open_dataset
from mdstorm_backend.cache import CacheOptions
from mdstorm_backend.datasets import Dataset


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    """The numbers 0 to 499 in several shards."""
    dataset = write_numbers(tmp_path / "mds", 500)
    assert len(dataset.shard_sizes) > 3
    return dataset


def numbers(urls: Any, **arguments: Any) -> list[list[int]]:
    with make_batch_reader(urls, **IN_ORDER, **arguments) as reader:
        return [batch.number.tolist() for batch in reader]


def test_listed_shards_become_batches_in_list_order(dataset: Dataset) -> None:
    everything = numbers(dataset.url)
    assert [n for batch in everything for n in batch] == list(range(500))
    assert numbers(dataset.file_urls) == numbers([dataset.url]) == everything
    assert numbers(dataset.file_urls[::-1]) == everything[::-1]
    assert numbers(dataset.file_urls[1]) == numbers([dataset.file_urls[1]]) == [everything[1]]


def test_state_of_reader_over_file_list_resumes_over_directory(dataset: Dataset) -> None:
    with make_batch_reader(dataset.file_urls, **IN_ORDER) as reader:
        first = next(reader).number.tolist()
        state = reader.state_dict()
    with make_batch_reader(dataset.url, **IN_ORDER) as reader:
        reader.load_state_dict(state)
        assert next(reader).number[0] == len(first)


def test_differently_spelled_urls_are_accepted(dataset: Dataset) -> None:
    urls = [url.replace("file:///", "file:/") for url in dataset.file_urls[:2]]
    assert numbers(urls) == numbers(dataset.file_urls[:2])


@pytest.mark.filterwarnings("ignore:Currently make_reader")
def test_path_objects_are_accepted_as_urls(
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


def test_relative_path_error_suggests_its_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidArgumentError, match=rf"\(x/y\) .*: write file://{tmp_path}/x/y$"):
        numbers("x/y")


def test_percent_encoded_spark_file_names_are_read(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a b", {"number": [1, 2]})
    url = f"file://{tmp_path}/a%20b/part.parquet"
    assert numbers([url]) == numbers(url) == [[1, 2]]


def test_filesystem_argument_with_mds_raises_error(dataset: Dataset) -> None:
    with pytest.raises(NotImplementedError, match="filesystem= reads Parquet files"):
        numbers(dataset.file_urls, filesystem=object())


def test_selected_shards_use_the_dataset_cache(dataset: Dataset, tmp_path: Path) -> None:
    cache = CacheOptions(directory=str(tmp_path / "cache"))
    whole = open_dataset(dataset.url, cache=cache)
    whole[0]
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*.mds")}
    part = whole.with_shards([0])
    assert (len(part), part.whole, part[1]) == (whole.shard_sizes[0], whole.fingerprint, whole[1])
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert whole.with_shards(range(len(whole.shard_sizes))) is whole


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Two partitions with one file each."""
    for day in (1, 2):
        write_parquet(tmp_path / f"day={day}", {"id": range(10 * day)})
    return tmp_path


def opened(directory: Path | list[str], **arguments: object) -> Reader:
    urls = directory if isinstance(directory, list) else f"file://{directory}"
    return make_batch_reader(urls, **arguments)  # type: ignore[arg-type]


def test_dataset_attribute_lists_its_files(directory: Path) -> None:
    with opened(directory) as reader:
        dataset = reader.dataset
        files = [f"{directory}/day={day}/part.parquet" for day in (1, 2)]
        assert dataset.files == files
        assert dataset.paths == str(directory)
        assert [piece.path for piece in dataset.pieces] == files
        assert [piece.partition_keys for piece in dataset.pieces] == [[("day", 1)], [("day", 2)]]
        assert {piece.row_group for piece in dataset.pieces} == {None}
        assert dataset.fs.exists(files[0])
        assert dataset.schema.names == ["day", "id"]
        assert dataset.schema.field("id").type == pa.int64()


def test_dataset_attribute_lists_all_files_even_if_only_some_are_read(directory: Path) -> None:
    arguments = {"predicate": in_set([2], "day"), "shuffle_row_drop_partitions": 2}
    with opened(directory, **arguments) as reader:
        assert [len(reader.dataset), len(reader.dataset.pieces)] == [20, 2]


def test_dataset_attribute_lists_mds_shards(tmp_path: Path) -> None:
    stored = write_numbers(tmp_path / "mds", 500)
    with opened(tmp_path / "mds") as reader:
        dataset = reader.dataset
        assert [f"file://{path}" for path in dataset.files] == stored.file_urls
        assert [piece.path for piece in dataset.pieces] == dataset.files
        assert dataset.paths == str(tmp_path / "mds")
        assert dataset.schema == stored.schema.arrow_schema
        assert (len(dataset), dataset.fingerprint) == (500, stored.fingerprint)


def test_dataset_attribute_has_file_schema_even_if_values_are_decoded() -> None:
    codecs = Path(__file__).parents[1] / "etl" / "golden" / "codecs"
    with make_reader(codecs.as_uri()) as reader:
        assert pa.types.is_binary(reader.dataset.schema.field("png").type)


def test_missing_attribute_error_names_replacement(directory: Path) -> None:
    with opened(directory) as reader:
        with pytest.raises(MissingAttributeError, match=r"no 'partitions'.*partition_keys"):
            _ = reader.dataset.partitions
        assert not hasattr(reader.dataset, "read")
        with pytest.raises(AttributeError, match="nothing"):
            _ = reader.dataset.nothing


def test_dataset_attribute_can_be_copied(directory: Path) -> None:
    with opened(directory) as reader:
        for again in (copy.copy(reader.dataset), pickle.loads(pickle.dumps(reader.dataset))):  # noqa: S301
            assert again.files == reader.dataset.files


def test_dataset_attribute_uses_the_given_filesystem(directory: Path) -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe("/read-dataset/0.parquet", (directory / "day=1" / "part.parquet").read_bytes())
    with make_batch_reader("memory://read-dataset") as reader:
        assert pq.read_table(reader.dataset.files[0], filesystem=reader.dataset.fs).num_rows == 10
    memory.rm("/read-dataset", recursive=True)


@pytest.mark.parametrize("make", [make_batch_reader, make_reader])
@pytest.mark.parametrize("name", ["_common_metadata", "_metadata"])
def test_metadata_file_that_is_a_directory_is_reported_as_damaged(
    make: Any, name: str, tmp_path: Path
) -> None:
    url = write_parquet(tmp_path, {"a": range(3)})
    (tmp_path / name).mkdir()
    with pytest.raises(CorruptDatasetError, match=rf"{url}/{name} was truncated, .*Remove it"):
        make(url)
    with pytest.raises(CorruptDatasetError, match=f"{url}/{name} is a directory"):
        _ = open_parquet(url).common_metadata
