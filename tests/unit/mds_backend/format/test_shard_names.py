"""Shard names and sizes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdstorm_backend.errors import InvalidArgumentError, WriteError
from mdstorm_backend.format.shard_names import ShardName, parse_shard_name
from mdstorm_backend.format.sizes import parse_size_limit
from mdstorm_backend.maintenance.reindex import missing_numbers, order_shards


def parsed(*paths: str) -> list[ShardName]:
    names = [parse_shard_name(path) for path in paths]
    return [name for name in names if name is not None]


def order(*paths: str) -> list[str]:
    return [name.path for name in order_shards(parsed(*paths))]


def test_shard_names_are_parsed() -> None:
    (ours,) = parsed("part-00003-0a1b2c3d-17.00002.mds.zstd")
    assert (ours.directory, ours.job, ours.partition, ours.attempt) == ("", "0a1b2c3d", 3, 17)
    assert (ours.number, ours.extension) == (2, "zstd")
    assert ours.raw_path == "part-00003-0a1b2c3d-17.00002.mds"
    (older,) = parsed("part-00003-17.00002.mds")
    assert (older.job, older.partition, older.attempt, older.number) == ("", 3, 17, 2)
    (mosaic,) = parsed("a/12/shard.123456.mds")
    assert (mosaic.directory, mosaic.number, mosaic.extension) == ("a/12", 123456, "")
    assert mosaic.raw_path == mosaic.path


@pytest.mark.parametrize(
    "path",
    [
        *("index.json", "_mdstorm", "shard.1.mds", "shard.00001.mds.lz4", "shard.00001.mds.tmp"),
        "part-00000-0a1b2c3d-1.00000.mds.0123456789abcdef0123456789abcdef.tmp",
        *("part-00000.mds", "shard.00000.mdsx", "xshard.00000.mds"),
    ],
)
def test_other_file_names_are_not_parsed(path: str) -> None:
    assert parse_shard_name(path) is None


@given(st.permutations(range(6)))
def test_shards_are_sorted_by_directory_partition_and_number(permutation: list[int]) -> None:
    expected = [
        "part-00000-5.00000.mds",
        "part-00000-5.00001.mds",
        "part-00002-1.00000.mds",
        "part-100000-0.00000.mds",
        "2/shard.00000.mds",
        "10/shard.00000.mds",
    ]
    assert order(*(expected[i] for i in permutation)) == expected


OURS = "part-00000-aaaaaaaa-1.00000.mds"


@pytest.mark.parametrize(
    "paths",
    [
        *([OURS, f"part-00001-{other}2.00000.mds"] for other in ("bbbbbbbb-", "")),
        [OURS, "shard.00000.mds"],
        ["00000/part-00000-aaaaaaaa-1.00000.mds", "00001/part-00001-bbbbbbbb-2.00000.mds"],
        ["a/00000/part-00000-aaaaaaaa-1.00000.mds", "a/part-00001-bbbbbbbb-2.00000.mds"],
    ],
)
def test_shards_from_two_writers_in_one_directory_raise_error_naming_them(
    paths: list[str],
) -> None:
    with pytest.raises(WriteError, match="shards of several jobs") as caught:
        order(*paths)
    assert all(path in str(caught.value) for path in paths)


def test_shards_from_writers_in_separate_directories_are_accepted() -> None:
    paths = ["a/shard.00000.mds", "b/part-00000-1.00000.mds"]
    assert order(*paths) == paths


def test_missing_shard_numbers_are_listed() -> None:
    names = parsed("part-00000-1.00000.mds.gz", "part-00000-1.00003.mds.gz", "a/shard.00001.mds")
    assert missing_numbers(names) == [
        "part-00000-1.00001.mds.gz",
        "part-00000-1.00002.mds.gz",
        "a/shard.00000.mds",
    ]
    assert missing_numbers(parsed("a/shard.00000.mds", "b/shard.00000.mds")) == []


@pytest.mark.parametrize(
    ("value", "size"),
    [(67_108_864, 1 << 26), (1000.9, 1000), ("1kb", 1024), ("1KB", 1024), ("1.5mb", 3 << 19),
     (" 10 kb ", 10_240), ("1e2kb", 102_400), ("100b", 100), ("100", 100), ("3gb", 3 << 30),
     ((1 << 32) - 1, (1 << 32) - 1), (None, None), (0, None), ("0kb", None)],
)  # fmt: skip
def test_shard_size_may_be_a_number_or_a_string(value: Any, size: int | None) -> None:
    assert parse_size_limit(value) == size


@pytest.mark.parametrize("value", ["", "kb", "1 parsec", "1xb", "b", "--1", [], "nankb"])
def test_invalid_shard_size_raises_error(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="unsupported value or suffix") as caught:
        parse_size_limit(value)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize("value", [-1, "-1kb", 1 << 32, "4gb", "1tb"])
def test_impossible_shard_sizes_raise_error(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"greater than zero and less than 2\*\*32"):
        parse_size_limit(value)
