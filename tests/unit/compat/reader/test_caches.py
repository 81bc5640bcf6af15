"""Readers with ``cache_type='local-disk'``, and the cache that they use."""

import errno
import os
import tempfile
from collections.abc import Callable
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from tests.kit.readers import batch_reader, write_parquet

from mdstorm import TransformSpec
from mdstorm._readers.keywords import AddedReaderKeywords, declared
from mdstorm.errors import UnsupportedArgumentError
from mdstorm.local_disk_cache import LocalDiskCache
from mdstorm.predicates import in_set

#: mdstorm's arguments with a value, and whether it changes the rows that a transform gets.
ADDED: dict[str, tuple[dict[str, Any], bool]] = {
    "fill_nulls": ({"fill_nulls": {"a": 7}}, True),
    "null_masks": ({"null_masks": ["a"]}, True),
    "decimals": ({"decimals": "float64"}, True),
    "dtype": ({"dtype": "float32"}, True),
    "decode": ({"decode": "image"}, True),
    "size": ({"decode": "image", "size": 2}, True),
    "rows": ({"rows": [1, 2]}, True),
    "row_numbers": ({"row_numbers": "row"}, True),
    "where": ({"where": [("a", ">", 1)]}, True),
    "check_ranks": ({"check_ranks": False}, False),
    "world": ({"world": (0, 1)}, False),
}
#: Arguments that raise an error with a cache, that choose the files, and a limit for errors.
WITHOUT_ROW = {
    *("order", "on_corrupt", "files", "version", "timestamp", "weights", "balance", "epoch_size"),
    *("max_image_bytes", "max_file_bytes", "files_below"),
}


def described(frame: pd.DataFrame) -> pd.DataFrame:
    """Return each row as a string, including the types of its values."""
    image = frame["image"].map(lambda image: (type(image), np.shape(image)))
    rows = frame.assign(image=image).to_dict("records")
    return pd.DataFrame({"a": [f"{row} {frame.dtypes.to_dict()}" for row in rows]})


@pytest.fixture
def url(tmp_path: Path) -> str:
    return write_parquet(tmp_path / "ten", {"a": range(10), "b": range(10, 20)})


def cached(url: str, location: Path, *, cleanup: bool = False, **arguments: Any) -> Any:
    given = {
        "cache_type": "local-disk",
        "cache_location": str(location),
        "cache_size_limit": 1 << 20,
        "cache_row_size_estimate": 100,
        "cache_extra_settings": {"cleanup": cleanup},
    }
    return batch_reader(url, **{**given, **arguments})


def read(reader: Any, column: str = "a", as_type: Callable[[Any], Any] = int) -> list[Any]:
    with reader:
        return [as_type(i) for batch in reader for i in getattr(batch, column)]


class TestReaders:
    """Readers with a cache."""

    def test_cached_transform_is_called_once_per_row_group(
        self, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        calls = tmp_path / "calls"
        calls.mkdir()
        # Calls are counted in files, because a list in the closure would be part of the cache key.
        monkeypatch.setenv("MDSTORM_TEST_CALLS", str(calls))

        def note(frame: pd.DataFrame) -> pd.DataFrame:
            tempfile.mkstemp(dir=os.environ["MDSTORM_TEST_CALLS"])
            return frame

        for _ in range(2):
            reader = cached(url, tmp_path / "c", num_epochs=2, transform_spec=TransformSpec(note))
            assert read(reader) == 2 * list(range(10))
        assert len(list(calls.iterdir())) == 3

    def test_cache_distinguishes_columns_filters_and_functions(
        self, url: str, tmp_path: Path
    ) -> None:
        width = TransformSpec(
            lambda frame: frame.assign(b=frame.shape[1])[["b"]], selected_fields=["b"]
        )
        ways: list[dict[str, Any]] = [
            {},
            {"schema_fields": ["b"]},
            {"filters": [("a", ">", 4)]},
            {"filters": [("a", ">", 5)]},
            {"filters": [("a", "in", np.full(2000, 1))]},
            {"filters": [("a", "in", np.insert(np.full(1999, 1), 1000, 2))]},
            {"transform_spec": TransformSpec(lambda frame: frame + 1)},
            {"transform_spec": TransformSpec(lambda frame: frame + 2)},
            {"cur_shard": 1, "shard_count": 2},
            {"transform_spec": width},
            {"transform_spec": width, "schema_fields": ["b"]},
        ]
        first = [read(cached(url, tmp_path / "c", **way), "b") for way in ways]
        assert first == [read(batch_reader(url, **way), "b") for way in ways]
        assert first == [read(cached(url, tmp_path / "c", **way), "b") for way in ways]
        assert len({tuple(found) for found in first}) == len(ways) - 2

    @pytest.mark.parametrize("name", ADDED)
    def test_cache_distinguishes_arguments_that_change_rows(
        self, name: str, tmp_path: Path
    ) -> None:
        png = BytesIO()
        Image.new("RGB", (3, 2)).save(png, "png")
        columns = {
            "a": [1, None, 3],
            "x": [0.5] * 3,
            "price": [Decimal("1.5")] * 3,
            "image": [png.getvalue()] * 3,
            "path": ["_file"] * 3,
        }
        url, cache = write_parquet(tmp_path / "data", columns), tmp_path / "c"
        (tmp_path / "data/_file").write_bytes(b"content")
        spec = TransformSpec(
            described, edit_fields=[("a", np.str_, (), False)], selected_fields=["a"]
        )
        usual = {"fill_nulls": {"a": 0}, "transform_spec": spec}
        given, changes = ADDED[name]
        given = {**usual, **given}
        first = read(cached(url, cache, **usual), as_type=str)
        expected = read(batch_reader(url, **given), as_type=str)
        assert (first != expected) == changes
        assert read(cached(url, cache, **given), as_type=str) == expected
        assert len([*cache.rglob("*.*")]) == 1 + changes

    def test_each_added_argument_is_in_the_table(self) -> None:
        assert {*ADDED, *WITHOUT_ROW} == set(declared(AddedReaderKeywords))

    def test_cache_refuses_files_whose_changes_it_does_not_see(self, tmp_path: Path) -> None:
        url = write_parquet(tmp_path / "named", {"path": ["a"]})
        with pytest.raises(UnsupportedArgumentError, match=r"cache .* with files=\{'c': 'path'\}"):
            cached(url, tmp_path / "cache", files={"c": "path"})

    def test_predicate_on_partitions_limits_the_cached_row_groups(self, tmp_path: Path) -> None:
        for part in ("x", "y"):
            write_parquet(tmp_path / "data" / f"part={part}", {"a": [f"in {part}"]})
        for part in ("x", "y", "x"):
            chosen = in_set({part}, "part")
            with cached(f"file://{tmp_path}/data", tmp_path / "c", predicate=chosen) as reader:
                assert [batch.a.tolist() for batch in reader] == [[f"in {part}"]]
        assert len(list((tmp_path / "c").iterdir())) == 2

    @pytest.mark.parametrize("settings", [{"cleanup": True}, None])
    def test_exiting_the_context_removes_cached_values(
        self, url: str, tmp_path: Path, settings: Any
    ) -> None:
        mine = tmp_path / "c" / "mine"
        mine.parent.mkdir()
        mine.touch()
        read(cached(url, tmp_path / "c", cache_extra_settings=settings))
        assert list((tmp_path / "c").iterdir()) == [mine]

    def test_cache_without_location_uses_a_separate_directory(
        self, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        reader = cached(url, tmp_path, cleanup=True, cache_location=None, num_epochs=2)
        assert [int(i) for batch in reader for i in batch.a] == 2 * list(range(10))
        (kept,) = tmp_path.glob("mdstorm-*")
        assert len(list(kept.iterdir())) == 3
        read(reader)
        assert not kept.exists()


def kilobytes(count: int) -> Any:
    return lambda: np.zeros(count << 10, np.uint8)


class TestLocalDiskCache:
    """`LocalDiskCache` without a reader."""

    @pytest.mark.parametrize("damage", [b"", b"x", None], ids=["empty", "short", "one bit"])
    def test_value_is_recomputed_if_its_cache_file_is_damaged(
        self, tmp_path: Path, damage: bytes | None
    ) -> None:
        cache = LocalDiskCache(str(tmp_path), 10_000, 10)
        cache.get("k", lambda: "value")
        (path,) = tmp_path.iterdir()
        content = bytearray(path.read_bytes())
        content[-3] ^= 1
        path.write_bytes(content if damage is None else damage)
        assert cache.get("k", lambda: "again") == "again"
        assert cache.get("k", lambda: "never") == "again"

    def test_cache_stays_within_its_size_limit(self, tmp_path: Path) -> None:
        cache = LocalDiskCache(str(tmp_path), 5 << 10, 1)
        for key in "abc":
            cache.get(key, kilobytes(2))
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 5 << 10
        assert cache.get("c", lambda: None) is not None
        assert cache.get("a", lambda: None) is None  # the oldest entry was evicted

    def test_lru_policy_evicts_least_recently_used_value(self, tmp_path: Path) -> None:
        cache = LocalDiskCache(str(tmp_path), 5 << 10, 1, eviction_policy="least-recently-used")
        for number, key in enumerate("ab"):
            cache.get(key, kilobytes(2))
            for path in tmp_path.iterdir():
                if path.stat().st_mtime > 1:
                    os.utime(path, (number, number))
        cache.get("a", kilobytes(2))
        cache.get("c", kilobytes(2))
        assert cache.get("a", lambda: None) is not None
        assert cache.get("b", lambda: None) is None

    def test_files_left_by_killed_process_count_towards_limit_and_are_evicted(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cache = LocalDiskCache(str(tmp_path / "c"), 5 << 10, 1, cleanup=True)
        child = os.fork()
        if child == 0:
            monkeypatch.setattr(os, "replace", lambda *_: os._exit(9))
            try:
                cache.get("a", kilobytes(2))
            finally:
                os._exit(1)
        os.waitpid(child, 0)
        cache.get("b", kilobytes(2))
        (left,) = (tmp_path / "c").glob("*.tmp")
        cache.get("c", kilobytes(2))
        assert not left.exists()
        assert cache.get("b", lambda: None) is not None
        left.touch()
        cache.cleanup()
        assert not left.parent.exists()
        # As if another process had removed the file.
        monkeypatch.setattr(os, "replace", lambda *_: os.remove("gone"))
        assert cache.get("d", lambda: 1) == 1

    def test_cache_on_full_disk_warns_once_and_computes_values(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(descriptor: int, mode: str) -> Any:
            os.close(descriptor)
            raise OSError(errno.ENOSPC, "No space left on device")

        cache = LocalDiskCache(str(tmp_path / "c"), 5 << 10, 1)
        assert cache.get("kept", lambda: 1) == 1
        monkeypatch.setattr(os, "fdopen", fail)
        with pytest.warns(UserWarning, match="No space left on device") as caught:
            assert [cache.get(key, lambda: 2) for key in ("a", "b", "a", "kept")] == [2, 2, 2, 1]
        (warning,) = caught
        assert f"the cache in {tmp_path}/c cannot store" in str(warning.message)
        assert len(list((tmp_path / "c").iterdir())) == 1

    def test_value_larger_than_the_limit_is_not_cached(self, tmp_path: Path) -> None:
        cache = LocalDiskCache(str(tmp_path), 5 << 10, 1)
        cache.get("small", kilobytes(1))
        cache.get("large", kilobytes(6))
        assert len(list(tmp_path.iterdir())) == 1

    def test_full_cache_without_eviction_stays_unchanged(self, tmp_path: Path) -> None:
        cache = LocalDiskCache(str(tmp_path), 5 << 10, 1 << 20, eviction_policy="none")
        for key in "abc":
            cache.get(key, kilobytes(2))
        assert cache.get("a", lambda: None) is not None
        assert cache.get("c", lambda: None) is None

    def test_cache_directory_is_private_to_the_user(self, tmp_path: Path) -> None:
        LocalDiskCache(str(tmp_path / "c"), 10_000, 10).get("k", list)
        assert (tmp_path / "c").stat().st_mode & 0o777 == 0o700

    @pytest.mark.skipif(os.getuid() != 0, reason="only root can change file ownership")
    def test_other_users_files_are_not_loaded(self, tmp_path: Path) -> None:
        cache = LocalDiskCache(str(tmp_path), 10_000, 10)
        cache.get("k", lambda: "theirs")
        (path,) = tmp_path.iterdir()
        os.chown(path, 12345, 12345)
        assert cache.get("k", lambda: "ours") == "ours"

    def test_file_behind_a_link_is_not_loaded(self, tmp_path: Path) -> None:
        cache = LocalDiskCache(str(tmp_path / "c"), 10_000, 10)
        cache.get("k", lambda: "theirs")
        (path,) = (tmp_path / "c").iterdir()
        path.symlink_to(path.rename(tmp_path / "elsewhere"))
        assert cache.get("k", lambda: "ours") == "ours"
        assert cache.get("k", lambda: "never") == "ours"

    def test_cache_recreates_directory_that_another_process_removed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make_file, removals = tempfile.mkstemp, iter(["once"])

        def after_a_removal(**options: Any) -> Any:
            if next(removals, None):
                options["dir"].rmdir()
            return make_file(**options)

        monkeypatch.setattr(tempfile, "mkstemp", after_a_removal)
        cache = LocalDiskCache(str(tmp_path / "c"), 10_000, 10)
        assert cache.get("k", lambda: 1) == cache.get("k", lambda: 2) == 1

    def test_warning_if_cache_cleanup_cannot_remove_files(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(path: Path, missing_ok: bool = False) -> None:
            raise PermissionError(f"not {path.suffix}")

        cache = LocalDiskCache(str(tmp_path / "c"), 1 << 20, 10, cleanup=True)
        assert cache.get("key", lambda: 1) == 1
        monkeypatch.setattr(Path, "unlink", fail)
        with pytest.warns(UserWarning, match=r"Error cleaning cache: not .*/c can be removed"):
            cache.cleanup()
        monkeypatch.undo()
        assert cache.get("key", lambda: 2) == 1

    def test_unknown_eviction_policy_raises_error(self, tmp_path: Path) -> None:
        with pytest.raises(NotImplementedError, match="eviction_policy='random'"):
            LocalDiskCache(str(tmp_path), 10_000, 10, eviction_policy="random")
