"""Converters that are made by hand, over files of Parquet and over MDS."""

from contextlib import nullcontext
from pathlib import Path

import pytest
from tests.compat.spark.converters import IN_ORDER, Read, with_either
from tests.mds_backend.small_datasets import write_numbers

from mdstorm.errors import DatasetNotFoundError, InvalidArgumentError, StateMismatchError
from mdstorm.spark import SparkDatasetConverter


@with_either
def test_any_files_of_parquet_will_do_in_their_order(data: Path, read: Read) -> None:
    urls = [f"file://{data}/1.parquet", f"file://{data}/0.parquet"]
    converter = SparkDatasetConverter(f"file://{data}", urls, 6)
    (batch,) = read(converter, schema_fields=["id"], **IN_ORDER)
    assert batch["id"] == [4, 5, 0, 1, 2, 3]
    part = SparkDatasetConverter(f"file://{data}", urls[:1], 2)
    (batch,) = read(part, schema_fields=["id"], **IN_ORDER)
    assert batch["id"] == [4, 5]


@with_either
def test_shards_are_read_in_their_order(tmp_path: Path, read: Read) -> None:
    dataset = write_numbers(tmp_path / "mds", 500)
    urls = [dataset.file_urls[2], dataset.file_urls[0]]
    sizes = [dataset.shard_sizes[2], dataset.shard_sizes[0]]
    start = sum(dataset.shard_sizes[:2])
    expected = [*range(start, start + sizes[0]), *range(sizes[1])]
    for directory in (dataset.url, None):
        some = SparkDatasetConverter(directory, urls, sum(sizes))
        assert [n for batch in read(some, **IN_ORDER) for n in batch["number"]] == expected


def test_states_of_some_shards_are_not_those_of_others(tmp_path: Path) -> None:
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
def test_without_a_directory(data: Path, read: Read) -> None:
    urls = [f"file://{data}/{n}.parquet" for n in range(2)]
    converter = SparkDatasetConverter(cache_dir_url=None, file_urls=urls, dataset_size=6)
    (batch,) = read(converter, schema_fields=["id"], **IN_ORDER)
    assert batch["id"] == list(range(6))
    converter.delete()  # has no copy to delete
    assert len(list(data.glob("*.parquet"))) == 2


@with_either
def test_files_of_another_dataset_are_refused(tmp_path: Path, read: Read) -> None:
    dataset = write_numbers(tmp_path / "mds", 500)
    others = [dataset.file_urls[0], f"{dataset.url}/part-1-2.00000.mds"]
    for urls, text in ((others, "is none of the .* shards"), ([], "is empty")):
        with pytest.raises(InvalidArgumentError, match=text):
            read(SparkDatasetConverter(dataset.url, urls, 5))


def test_missing_files_are_an_error_when_they_are_read(tmp_path: Path) -> None:
    for url in ("0.parquet", "100%25.parquet", "part-00000-0.00000.mds"):
        converter = SparkDatasetConverter(f"file://{tmp_path}", [f"file://{tmp_path}/{url}"], 1)
        with pytest.raises(DatasetNotFoundError) as caught, converter.make_torch_dataloader():
            pass
        assert isinstance(caught.value, RuntimeError)
