"""A cache record that is not as expected counts as absent, with any content."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.mds_backend.cache.shards import FINGERPRINT, cache, contents, make_shards

from mdstorm_backend.cache.directory import CacheDirectory, FileIdentity, Record
from mdstorm_backend.cache.space import clear_cached, list_cached

_IDENTITY = FileIdentity(1, 2, 3)
_NAME = "shard.00000.mds"
VALID: dict[str, Any] = json.loads(
    Record(FINGERPRINT, {_NAME: _IDENTITY}, {"sha1": _IDENTITY}, _IDENTITY, 5).to_bytes()
)
_SIZE = ("files", _NAME, "size")


def paths_in(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of every value in nested dictionaries."""
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths_in(inner, (*path, key))


def with_value(path: tuple[str, ...], value: Any) -> Any:
    """Return a valid record in which the value at `path` is replaced."""
    found = {"": copy.deepcopy(VALID)}
    inner: Any = found
    *outer, last = ("", *path)
    for key in outer:
        inner = inner[key]
    inner[last] = value
    return found[""]


def uses(note: bytes, folder: Path) -> None:
    """Write `note` in place of the records of a shard and of the index, and use the cache."""
    (info,) = make_shards(folder / "remote", 1)
    for name in ("read", "cleared"):
        options = {"directory": folder / name, "limit": 10_000}
        cache(folder / "remote", **options).open(info)
        directory = CacheDirectory(str(folder / name))
        for record in (directory.record(_NAME), directory.index_note):
            Path(record).write_bytes(note)
        list_cached(directory.path)
        if name == "cleared":
            clear_cached(directory.path)
        assert bytes(cache(folder / "remote", **options).open(info)) == contents([info])[0]
        clear_cached(directory.path)
        assert not list_cached(directory.path)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("files",), []),
        (("files",), None),
        (("checked",), []),
        (("source",), []),
        (("source",), 0),
        (("reserved",), []),
        (("reserved",), "5"),
        (("reserved",), -5),
        (("reserved",), True),
        (("reserved",), 1e300),
        (("dataset",), []),
        (_SIZE, []),
        (_SIZE, None),
        (_SIZE, "2"),
        (_SIZE, -2),
        (("files", _NAME), {}),
        (("files", _NAME), [1, 2, 3]),
        (("files", _NAME, "other"), 1),
        (("files", "../other"), VALID["source"]),
        (("files", "/etc/passwd"), VALID["source"]),
        (("files", ""), VALID["source"]),
        (("files", "a\0b"), VALID["source"]),
        (("files", "\ud800"), VALID["source"]),
        (("version",), 2),
        ((), []),
        ((), "text"),
        ((), None),
    ],
)
def test_record_with_a_value_of_another_type_counts_as_absent(
    path: tuple[str, ...], value: Any, tmp_path: Path
) -> None:
    note = json.dumps(with_value(path, value)).encode()
    assert Record.from_bytes(note) == Record()
    uses(note, tmp_path)


@pytest.mark.parametrize("name", ["n" * 300, "a/" * 3000 + "b"])
def test_record_of_a_file_with_a_name_that_is_too_long_is_read(name: str, tmp_path: Path) -> None:
    uses(json.dumps(with_value(("files", name), VALID["source"])).encode(), tmp_path)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)


@pytest.mark.long
@given(st.sampled_from([*paths_in(VALID)]), _JSON)
def test_any_json_in_place_of_a_part_of_a_record_is_read(path: tuple[str, ...], value: Any) -> None:
    with TemporaryDirectory() as folder:
        uses(json.dumps(with_value(path, value)).encode(), Path(folder))


@given(st.binary(max_size=20))
def test_any_bytes_in_place_of_a_record_are_read(note: bytes) -> None:
    with TemporaryDirectory() as folder:
        uses(note, Path(folder))


@pytest.mark.parametrize("note", [b"[" * 100_000, b"[]", b"{}", b"\xff", b'{"url": 1}'])
def test_unreadable_description_of_a_dataset_counts_as_absent(note: bytes, tmp_path: Path) -> None:
    (info,) = make_shards(tmp_path / "remote", 1)
    directory = CacheDirectory(str(tmp_path / "local"))
    cache(tmp_path / "remote", directory=tmp_path / "local").open(info)
    Path(directory.descriptor).write_bytes(note)
    assert [entry.url for entry in list_cached(directory.path)] == ["?"]
    assert clear_cached(directory.path) == 1000
