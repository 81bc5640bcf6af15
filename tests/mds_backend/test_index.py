from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.mds_backend.datasets import write_numbers

from mdstorm_backend.dataset import open_dataset
from mdstorm_backend.errors import CorruptDatasetError, MDStormError
from mdstorm_backend.index import FileInfo, Index, ShardInfo

URL = "file:///data/index.json"

#: The keys that other readers of the format demand, and more than which they refuse.
SHARD_KEYS = {
    "column_encodings",
    "column_names",
    "column_sizes",
    "compression",
    "format",
    "hashes",
    "raw_data",
    "samples",
    "size_limit",
    "version",
    "zip_data",
}

SHARD = ShardInfo(
    column_names=("a", "b"),
    column_encodings=("int32", "str"),
    column_sizes=(4, None),
    samples=3,
    raw_data=FileInfo("shard.00000.mds", 100, {"sha1": "00ff"}),
    zip_data=FileInfo("shard.00000.mds.zstd", 50, {"sha1": "ff00"}),
    compression="zstd:3",
    hashes=("sha1",),
    size_limit=1 << 26,
)
PLAIN_SHARD = ShardInfo(("a",), ("int8",), (1,), 0, FileInfo("x.mds", 20, {}))

files = st.builds(
    FileInfo,
    st.text(min_size=1, max_size=8),
    st.integers(0, 1 << 32),
    st.dictionaries(st.sampled_from(["sha1", "xxh64"]), st.text("0123456789abcdef")),
)
shards = st.integers(0, 3).flatmap(
    lambda n: st.builds(
        ShardInfo,
        *(
            st.lists(items, min_size=n, max_size=n).map(tuple)
            for items in (
                st.text(max_size=5),
                st.sampled_from(["int8", "str", "ndarray:int8:3"]),
                st.none() | st.integers(0, 100),
            )
        ),
        st.integers(0, 1 << 32),
        files,
        st.none() | files,
        st.sampled_from([None, "gz", "zstd:1"]),
        st.lists(st.sampled_from(["sha1", "xxh64"]), max_size=2).map(tuple),
        st.none() | st.integers(1, 1 << 32),
    )
)


@settings(deadline=None)
@given(
    st.lists(shards, max_size=3).map(tuple), st.dictionaries(st.text(), st.integers(), max_size=3)
)
def test_an_index_reads_back_as_it_was_written(
    infos: tuple[ShardInfo, ...], extra: dict[str, Any]
) -> None:
    index = Index(infos, extra)
    assert Index.from_bytes(index.to_bytes(), url=URL) == index


@pytest.mark.parametrize("shard", [SHARD, PLAIN_SHARD])
def test_a_shard_object_has_the_eleven_keys_of_the_format(shard: ShardInfo) -> None:
    value = shard.to_json()
    assert set(value) == SHARD_KEYS
    for file in (value["raw_data"], value["zip_data"]):
        assert file is None or set(file) == {"basename", "bytes", "hashes"}
    assert (value["format"], value["version"]) == ("mds", 2)


def test_the_file_is_written_as_the_formats_own_writer_does() -> None:
    data = Index((SHARD,), {}).to_bytes()
    assert data == json.dumps(json.loads(data), sort_keys=True).encode("ascii")
    assert set(json.loads(data)) == {"shards", "version"}


def test_what_the_format_has_no_word_for_stands_outside_of_the_shards(tmp_path: Path) -> None:
    dataset = write_numbers(tmp_path, 5)
    value = json.loads((tmp_path / "index.json").read_text("ascii"))
    assert set(value) == {"mdstorm", "shards", "version"}
    assert all(set(shard) == SHARD_KEYS for shard in value["shards"])
    assert value["mdstorm"] == dataset.index.extra


def value_of_index() -> dict[str, Any]:
    return json.loads(Index((SHARD,), {}).to_bytes())  # type: ignore[no-any-return]


def check_is_refused(data: bytes) -> str:
    with pytest.raises(CorruptDatasetError) as caught:
        Index.from_bytes(data, url=URL)
    assert isinstance(caught.value, (MDStormError, ValueError))
    assert caught.value.url == URL
    message = str(caught.value)
    assert URL in message
    assert "Write the dataset again" in message
    return message


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"\xff\xfe\x00", b"[]", b"null", b"7", b'"text"', b"{}", b'{"version": 2}'],
)
def test_what_is_not_an_index_is_refused(data: bytes) -> None:
    check_is_refused(data)


@pytest.mark.parametrize("version", [1, 3, "2", None])
def test_another_version_is_refused(version: object) -> None:
    value = {**value_of_index(), "version": version}
    assert repr(version) in check_is_refused(json.dumps(value).encode())


@pytest.mark.parametrize("key", ["shards", "version"])
def test_a_missing_key_is_named(key: str) -> None:
    value = value_of_index()
    del value[key]
    assert f"KeyError: {key!r}" in check_is_refused(json.dumps(value).encode())


@pytest.mark.parametrize("key", sorted(SHARD_KEYS))
def test_a_missing_key_of_a_shard_is_named(key: str) -> None:
    value = value_of_index()
    del value["shards"][0][key]
    assert f"KeyError: {key!r}" in check_is_refused(json.dumps(value).encode())


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("format", "json"),
        ("version", 1),
        ("samples", "many"),
        ("samples", None),
        ("raw_data", None),
        ("raw_data", {}),
        ("raw_data", {"basename": "x", "bytes": 1, "hashes": {}, "more": 1}),
        ("zip_data", {"basename": "x"}),
        ("column_names", 7),
        ("column_names", ["a"]),
        ("column_sizes", [4]),
    ],
)
def test_a_wrong_value_in_a_shard_is_refused(key: str, wrong: object) -> None:
    value = value_of_index()
    value["shards"][0][key] = wrong
    check_is_refused(json.dumps(value).encode())


def test_our_own_entry_must_be_an_object() -> None:
    check_is_refused(json.dumps({**value_of_index(), "mdstorm": [1]}).encode())


def test_an_empty_object_counts_as_no_compressed_file() -> None:
    value = value_of_index()
    value["shards"][0]["zip_data"] = {}
    (shard,) = Index.from_bytes(json.dumps(value).encode(), url=URL).shards
    assert shard.zip_data is None


def test_opening_a_dataset_reports_a_corrupt_index_with_its_url(tmp_path: Path) -> None:
    write_numbers(tmp_path, 5)
    (tmp_path / "index.json").write_bytes(b"not JSON")
    with pytest.raises(CorruptDatasetError, match=r"index\.json is not the index") as caught:
        open_dataset(str(tmp_path))
    assert caught.value.url == f"file://{tmp_path}/index.json"
