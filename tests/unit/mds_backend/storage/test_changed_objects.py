"""Objects on S3 that are replaced after a dataset was opened, and objects that are not."""

from pathlib import Path
from typing import Any

import pytest
from tests.kit.servers.s3 import BUCKET, S3Server

from mdstorm_backend import MDSWriter
from mdstorm_backend.cache import CacheOptions
from mdstorm_backend.datasets import Dataset, open_mds
from mdstorm_backend.errors import DatasetChangedError

URL, ROWS = f"s3://{BUCKET}/changed", 60


def write(s3: S3Server, added: int = 0) -> None:
    with MDSWriter(
        out=URL,
        columns={"n": "int64"},
        size_limit=300,
        exist_ok=True,
        storage_options={"endpoint_url": s3.url},
    ) as writer:
        for number in range(ROWS):
            writer.write({"n": number + added})


@pytest.fixture
def dataset(s3: S3Server, tmp_path: Path) -> Dataset:
    """A dataset that was written two days ago."""
    write(s3)
    s3.grow_old("changed/")
    options: dict[str, Any] = {"storage_options": {"endpoint_url": s3.url}}
    return open_mds(URL, cache=CacheOptions(directory=str(tmp_path / "local")), **options)


def numbers(dataset: Dataset) -> list[int]:
    return dataset.to_table()["n"].to_pylist()  # type: ignore[no-any-return]


def test_unchanged_objects_need_no_request_but_their_download(
    dataset: Dataset, s3: S3Server
) -> None:
    s3.requests.clear()
    assert numbers(dataset) == [*range(ROWS)]
    assert s3.count("GET", ".mds") == len(s3.requests) == len(dataset.shard_sizes)


def test_objects_and_index_that_are_written_again_raise_error(
    dataset: Dataset, s3: S3Server
) -> None:
    assert dataset[0] == {"n": 0}
    write(s3, 1000)
    assert dataset[0] == {"n": 0}  # in the cache
    with pytest.raises(DatasetChangedError, match=r"it and index\.json were written since"):
        dataset[ROWS - 1]


def test_objects_that_were_copied_after_their_index_are_read(
    dataset: Dataset, s3: S3Server
) -> None:
    for name, content in s3.objects("changed/").items():
        if name.endswith(".mds"):
            dataset.location.write(name, [content])
    s3.requests.clear()
    for info in dataset.index.shards:  # threads may ask for the index at the same time
        dataset.files.open(info)
    assert 1 <= s3.count("HEAD", "index.json") <= 2
    assert numbers(dataset) == [*range(ROWS)]


def test_object_that_differs_at_its_second_download_raises_error(
    dataset: Dataset, s3: S3Server
) -> None:
    info = dataset.index.shards[0]
    dataset.files.open(info)
    content = s3.objects("changed/")[info.raw_data.basename]
    dataset.location.write(info.raw_data.basename, [content[::-1]])
    assert dataset.files.discard(info)
    with pytest.raises(DatasetChangedError, match="another entity tag"):
        dataset.files.open(info)
