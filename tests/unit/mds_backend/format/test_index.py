import json
from typing import Any

import pytest

from mdstorm_backend.errors import CorruptDatasetError, UnsupportedTableError
from mdstorm_backend.format.index import FileInfo, Index, ShardInfo
from mdstorm_backend.format.schema import Schema

URL = "file:///data/index.json"

#: The shard keys that MosaicML Streaming requires; it raises an error for any other key.
SHARD_KEYS = {
    *("column_encodings", "column_names", "column_sizes", "compression", "format", "hashes"),
    *("raw_data", "samples", "size_limit", "version", "zip_data"),
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


def test_index_round_trips_through_json() -> None:
    other = PLAIN_SHARD._replace(raw_data=FileInfo("a b/ü.mds", 20, {}), size_limit="1.5MB")
    index = Index((SHARD, PLAIN_SHARD, other), {"a": 1})
    data = index.to_bytes()
    assert data == json.dumps(json.loads(data), sort_keys=True).encode("ascii")
    assert Index.from_bytes(data, url=URL) == index


def value_of_index() -> dict[str, Any]:
    return json.loads(Index((SHARD,), {}).to_bytes())  # type: ignore[no-any-return]


def check_is_refused(data: bytes) -> str:
    with pytest.raises(CorruptDatasetError) as caught:
        Index.from_bytes(data, url=URL)
    assert caught.value.url == URL
    message = str(caught.value)
    assert URL in message
    assert "Write the dataset again" in message
    return message


@pytest.mark.parametrize(
    ("format_", "keys"),
    [
        ("json", {"columns": [["a", "int"]], "newline": "\n"}),
        ("csv", {"columns": [["a", "int"]], "newline": "\n", "quote": '"'}),
        ("tsv", {"columns": [["a", "int"]], "newline": "\n"}),
        ("xsv", {"columns": [["a", "int"]], "newline": "\n", "separator": ";"}),
    ],
)
def test_index_of_other_shards_of_mosaicml_names_their_format(
    format_: str, keys: dict[str, Any]
) -> None:
    value = value_of_index()
    shard = {**value["shards"][0], **keys, "format": format_, "raw_meta": {}, "zip_meta": None}
    data = json.dumps({**value, "shards": [shard]}).encode()
    with pytest.raises(UnsupportedTableError, match=f"lists {format_.upper()} shards") as caught:
        Index.from_bytes(data, url=URL)
    assert caught.value.url == URL


@pytest.mark.parametrize("version", [1, 3, "2", None])
def test_index_with_different_version_raises_error(version: object) -> None:
    value = {**value_of_index(), "version": version}
    assert repr(version) in check_is_refused(json.dumps(value).encode())


@pytest.mark.parametrize("key", sorted(SHARD_KEYS))
def test_missing_shard_key_raises_error_naming_the_key(key: str) -> None:
    value = value_of_index()
    del value["shards"][0][key]
    assert f"KeyError: {key!r}" in check_is_refused(json.dumps(value).encode())


def of_file(**changes: object) -> dict[str, Any]:
    return {"basename": "x", "bytes": 100, "hashes": {}, **changes}


WRONG: dict[str, list[Any]] = {
    "format": ["parquet"],
    "version": [1, True],
    "samples": ["many", None, True, 3.0, -1, 8, 1 << 40],
    "raw_data": [
        *(None, {}, of_file(more=1)),
        *(of_file(bytes=size) for size in (1, True, 100.0, -1, 1 << 32)),
        *(of_file(hashes=hashes) for hashes in ([], {"sha1": 7})),
        *(of_file(basename=name) for name in (7, "shard.00000.mds.zstd")),
    ],
    "zip_data": [{"basename": "x"}, None, [1]],
    "column_names": [7, "ab", {"a": 1, "b": 2}, ["a"], ["a", "a"], ["a", None], ["a", "\ud800"]],
    "column_encodings": [["int32", 4], ["int32", "ndarray:int8:0"]],
    "column_sizes": [[4], [-4, None], [4.0, None], [0, None], [1 << 40, None]],
    "compression": [None, "lz5", "zstd:99", 3, ["zstd"]],
    "hashes": ["sha1", [1]],
    "size_limit": [-1, True, [1], 10**30],
    "more": [1],
}


@pytest.mark.parametrize(("key", "wrong"), [(key, w) for key in WRONG for w in WRONG[key]])
def test_wrong_value_in_a_shard_entry_raises_error(key: str, wrong: object) -> None:
    value = value_of_index()
    value["shards"][0][key] = wrong
    assert "shard 0: " in check_is_refused(json.dumps(value).encode())


@pytest.mark.parametrize(("samples", "size"), [(0, 8), (1, 20), (7, 92)])
def test_samples_that_fill_the_file_are_accepted_and_no_more(samples: int, size: int) -> None:
    """Of 8 bytes each, and as many offsets and two more: a file with an empty header."""
    value = value_of_index()
    value["shards"][0] |= {"samples": samples, "raw_data": of_file(bytes=size)}
    assert Index.from_bytes(json.dumps(value).encode(), url=URL).shards[0].samples == samples
    value["shards"][0] |= {"raw_data": of_file(bytes=size - 1)}
    assert "do not fit into" in check_is_refused(json.dumps(value).encode())


@pytest.mark.parametrize("data", [b"", b'{"shards": [', b"not JSON"])
def test_index_that_is_not_json_raises_json_decode_error(data: bytes) -> None:
    with pytest.raises(json.JSONDecodeError, match="is not the index of an MDS dataset") as caught:
        Index.from_bytes(data, url=URL)
    assert isinstance(caught.value, CorruptDatasetError)
    assert caught.value.url == URL
    with pytest.raises(CorruptDatasetError) as other:
        Index.from_bytes(b"[]", url=URL)
    assert not isinstance(other.value, json.JSONDecodeError)


@pytest.mark.parametrize("sizes", [[8, None], [None, None], [4, 4]])
def test_column_whose_size_contradicts_its_encoding_is_opaque(sizes: list[int | None]) -> None:
    value = value_of_index()
    value["shards"][0]["column_sizes"] = sizes
    schema = Schema.from_shards(Index.from_bytes(json.dumps(value).encode(), url=URL).shards)
    opaque = [column.name for column in schema if column.parsed_encoding.is_opaque]
    wanted = {"a": 4, "b": None}
    assert opaque == [n for n, size in zip("ab", sizes, strict=True) if size != wanted[n]]


@pytest.mark.parametrize("file", ["raw_data", "zip_data"])
@pytest.mark.parametrize(
    "basename",
    [
        *("", ".", "..", "../x.mds", "a/../../x.mds", "a/..", "./x.mds", "/etc/passwd"),
        *("//host/x.mds", "a//x.mds", "a/", "C:/x.mds", "c:x.mds", "a\\x.mds", "..\\x.mds"),
        *("x\0.mds", "index.json", "x" * 256, "é" * 128, "x/" * 600 + "x", "\ud800"),
    ],
)
def test_file_outside_the_dataset_raises_error(file: str, basename: str) -> None:
    value = value_of_index()
    value["shards"][0][file]["basename"] = basename
    assert "shard 0: " in check_is_refused(json.dumps(value).encode())


def test_index_with_the_same_file_in_two_shards_raises_error() -> None:
    value = value_of_index()
    value["shards"] *= 2
    message = check_is_refused(json.dumps(value).encode())
    assert "shards 0 and 1 have the same file, 'shard.00000.mds'" in message


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"{", b"\xff\xfe\x00", b"[]", b"null", b"7", b'"text"', b"{}", b'{"version": 2}'),
        b"[" * 100_000,
        b'{"version": 2, "shards": [], "mdstorm": ' + b'{"a": ' * 400 + b"1" + b"}" * 401,
        b'{"version": 2, "shards": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"version": 2, "shards": [' + b"1" * 5000 + b"]}",
        *(b'{"version": NaN, "shards": []}', b'{"version": 2, "shards": [], "mdstorm": [1]}'),
        *(b'{"version": 2, "shards": %s}' % s for s in (b"{}", b'"text"', b"[[]]", b"[null]")),
    ],
    ids=lambda data: repr(data[:40]),
)
def test_json_that_is_not_an_index_raises_error(data: bytes) -> None:
    check_is_refused(data)


def test_error_for_a_large_invalid_value_is_short() -> None:
    value = value_of_index()
    value["shards"][0]["compression"] = "x" * 100_000
    value["shards"][0]["samples"] = ["y" * 100_000]
    assert len(check_is_refused(json.dumps(value).encode())) < 1000
    value["shards"][0].update({f"key {i}" * 100: 1 for i in range(100)})
    assert len(check_is_refused(json.dumps(value).encode())) < 1000


def test_index_merged_by_mosaicml_streaming_is_read() -> None:
    """Its keys are in a different order, and the files are in subdirectories."""
    entries = [
        {**SHARD.to_json(), "size_limit": "1kb"},
        {**PLAIN_SHARD.to_json(), "zip_data": {}, "compression": ""},
    ]
    for i, entry in enumerate(entries):
        entry["raw_data"]["basename"] = f"{i}/shard.00000.mds"
        if entry["zip_data"]:
            entry["zip_data"]["basename"] = f"{i}/shard.00000.mds.zstd"
    index = Index.from_bytes(json.dumps({"version": 2, "shards": entries}).encode(), url=URL)
    first, second = index.shards
    assert first.size_limit == "1kb"
    assert (second.zip_data, second.compression) == (None, None)
    assert [s.raw_data.basename for s in index.shards] == ["0/shard.00000.mds", "1/shard.00000.mds"]
    assert json.loads(index.to_bytes())["shards"][0] == entries[0]
