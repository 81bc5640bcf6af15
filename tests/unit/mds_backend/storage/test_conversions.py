"""Concurrent, killed and resumed conversions to an object store, which has no locks."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.kit.parquet_files import numbers, write
from tests.kit.servers.s3 import BUCKET, S3Server

from mdstorm_backend import open_dataset
from mdstorm_backend.convert import convert_parquet
from mdstorm_backend.parquet import ParquetDataset
from mdstorm_backend.storage import Location
from mdstorm_backend.write import remove_dataset

OPTIONS: dict[str, Any] = {"shard_size": 1300, "workers": 1}


#: Values of `resume` for two conversions: true for only one of them, or for neither or both.
ONE, NONE_OR_BOTH = [(False, True), (True, False)], [(False, False), (True, True)]


def long(pairs: list[tuple[bool, bool]]) -> list[Any]:
    return [pytest.param(*pair, marks=pytest.mark.long) for pair in pairs]


@pytest.fixture
def source(tmp_path: Path) -> ParquetDataset:
    return write(tmp_path / "source", *[numbers(20, 20 * i) for i in range(5)])


@pytest.mark.parametrize(("first", "second"), [ONE[1], *long([ONE[0], *NONE_OR_BOTH])])
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


@pytest.mark.long
@pytest.mark.parametrize("earlier", [True, False])
def test_failed_conversion_keeps_marker_of_conversion_that_just_started(
    s3: S3Server, source: ParquetDataset, earlier: bool
) -> None:
    location = Location.of(f"s3://{BUCKET}/begun-{earlier}/mds")
    begun = threading.Event()

    def fail(done: int, total: int) -> None:
        if earlier:
            begin.set()
            assert begun.wait(60)
        raise ZeroDivisionError

    def succeed(done: int, total: int) -> None:
        if done == 0:
            begun.set()
            assert isinstance(failing().exception(60), ZeroDivisionError)
            assert location.exists("_mdstorm")

    begin = threading.Event()
    with ThreadPoolExecutor(1) as thread:

        @cache
        def failing() -> Future[Any]:
            options = {"progress": fail, "resume": False, **OPTIONS}
            return thread.submit(convert_parquet, source, location.url, **options)

        if earlier:
            failing()
            assert begin.wait(60)
        convert_parquet(source, location.url, progress=succeed, resume=False, **OPTIONS)
    assert open_dataset(location.url).to_table().equals(numbers(100))
    assert remove_dataset(location) == []


@pytest.mark.long
def test_marker_removed_by_another_job_is_written_again(
    s3: S3Server, source: ParquetDataset
) -> None:
    location = Location.of(f"s3://{BUCKET}/removed/mds")

    def remove(done: int, total: int) -> None:
        location.remove("_mdstorm")

    convert_parquet(source, location.url, progress=remove, **OPTIONS)
    assert remove_dataset(location) == []


@pytest.mark.long
@pytest.mark.parametrize("before", [False, True])
def test_failed_conversion_leaves_only_a_preexisting_marker(
    s3: S3Server, source: ParquetDataset, before: bool
) -> None:
    location = Location.of(f"s3://{BUCKET}/gone-{before}/mds")
    if before:
        location.write("_mdstorm", [b""])

    def fail(done: int, total: int) -> None:
        if done:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        convert_parquet(source, location.url, progress=fail, resume=False, **OPTIONS)
    assert location.list_names() == ["_mdstorm"] * before


def leftovers(url: str) -> set[str]:
    """Return the names of files that are not part of the dataset."""
    shards = {shard.stored.basename for shard in open_dataset(url).index.shards}
    return set(Location.of(url).list_names()) - shards - {"index.json", "_mdstorm"}


def interrupted(source: ParquetDataset, url: str) -> int:
    """Interrupt a conversion after 60 rows; return the number of rows that it resumed from."""
    seen: list[int] = []

    def interrupt(done: int, total: int) -> None:
        seen.append(done)
        if done == 60:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert_parquet(source, url, progress=interrupt, **OPTIONS)
    return seen[0]


@pytest.mark.long
@pytest.mark.parametrize("resume", [True, False])
def test_conversion_removes_shards_of_conversions_killed_over_a_day_ago(
    s3: S3Server, source: ParquetDataset, resume: bool
) -> None:
    url = f"s3://{BUCKET}/killed-{resume}/mds"
    assert [interrupted(source, url) for _ in range(2)] == [0, 40]
    convert_parquet(source, url, resume=resume, **OPTIONS)
    convert_parquet(source, url, resume=resume, overwrite=True, **OPTIONS)
    assert (leftovers(url) == set()) == resume  # one that resumes removes them at once
    s3.grow_old(f"killed-{resume}/")
    convert_parquet(source, url, resume=resume, overwrite=True, **OPTIONS)
    assert leftovers(url) == set()
    assert open_dataset(url).to_table().equals(numbers(100))


@pytest.mark.long
def test_finished_parts_of_killed_conversion_are_reused_after_a_day(
    s3: S3Server, source: ParquetDataset
) -> None:
    url = f"s3://{BUCKET}/resumed/mds"
    assert [interrupted(source, url) for _ in range(2)] == [0, 40]
    s3.grow_old("resumed/")
    assert interrupted(source, url) == 40
    convert_parquet(source, url, **OPTIONS)
    assert all(name.endswith(".mds") for name in leftovers(url))
    assert open_dataset(url).to_table().equals(numbers(100))
