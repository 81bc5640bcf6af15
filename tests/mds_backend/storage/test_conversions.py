"""Two conversions of one source to one directory of a store, which has no locks."""

from pathlib import Path
from typing import Any

import pytest
from tests.mds_backend.convert.parquet_files import numbers, write
from tests.servers.s3 import BUCKET, S3Server

from mdstorm_backend.convert import convert_parquet
from mdstorm_backend.datasets.dataset import open_dataset
from mdstorm_backend.errors import DatasetExistsError
from mdstorm_backend.parquet import ParquetDataset
from mdstorm_backend.storage import Location

OPTIONS: dict[str, Any] = {"shard_size": 1300, "workers": 1}


#: Whether each of two conversions may be resumed.
ONE, NONE_OR_BOTH = [(False, True), (True, False)], [(False, False), (True, True)]


def long(pairs: list[tuple[bool, bool]]) -> list[Any]:
    return [pytest.param(*pair, marks=pytest.mark.long) for pair in pairs]


@pytest.fixture
def source(tmp_path: Path) -> ParquetDataset:
    return write(tmp_path / "source", *[numbers(20, 20 * i) for i in range(5)])


@pytest.mark.parametrize(("first", "second"), [*ONE, *long(NONE_OR_BOTH)])
def test_failed_conversion_removes_only_its_own_shards(
    s3: S3Server, source: ParquetDataset, first: bool, second: bool
) -> None:
    location = Location.of(f"s3://{BUCKET}/fails-{first}-{second}/mds")

    def fail(done: int, total: int) -> None:
        if done == 80:
            raise ZeroDivisionError

    def meanwhile(done: int, total: int) -> None:
        if done == 60:
            before = set(location.list_names())
            with pytest.raises(ZeroDivisionError):
                convert_parquet(source, location.url, progress=fail, resume=second, **OPTIONS)
            assert before <= set(location.list_names())

    convert_parquet(source, location.url, progress=meanwhile, resume=first, **OPTIONS)
    assert open_dataset(location.url).to_table().equals(numbers(100))


@pytest.mark.parametrize(("first", "second"), [*NONE_OR_BOTH, *long(ONE)])
def test_second_of_two_conversions_leaves_the_first_dataset(
    s3: S3Server, source: ParquetDataset, first: bool, second: bool
) -> None:
    url = f"s3://{BUCKET}/late-{first}-{second}/mds"

    def meanwhile(done: int, total: int) -> None:
        if done == 60:
            convert_parquet(source, url, resume=second, **OPTIONS)

    with pytest.raises(DatasetExistsError, match="another job has written a dataset"):
        convert_parquet(source, url, progress=meanwhile, resume=first, **OPTIONS)
    assert open_dataset(url).to_table().equals(numbers(100))
    if not (first or second):  # what one of them has left to be resumed stays
        shards = {shard.stored.basename for shard in open_dataset(url).index.shards}
        found = Location.of(url).list_names()
        assert {name for name in found if name.startswith("part-")} == shards
