"""`cache_key`: copies that other processes can find."""

import gc
import inspect
import pickle
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import of_values
from tests.kit.kept import set_age

from mdstorm._spark import list_copies
from mdstorm._spark.renewed import renew_all
from mdstorm.spark import make_spark_converter
from mdstorm_backend import open_dataset


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A CSV file with three numbers."""
    path = tmp_path / "rows.csv"
    path.write_text("1\n2\n3\n")
    return path


def rows(converter: Any) -> list[int]:
    return open_dataset(converter.cache_dir_url).to_table()["x"].to_pylist()  # type: ignore[no-any-return]


#: Another value of each argument, and whether the rows are converted again.
OPTIONS: dict[str, tuple[Any, bool]] = {
    "parquet_row_group_size_bytes": (1 << 20, True),
    "compression_codec": ("snappy", True),
    "dtype": ("float64", True),
    "decimals": ("float64", True),
    "parent_cache_dir_url": ("other", True),
    "cache_key": ("other", False),
    "keep": (True, False),
    "staging": (True, False),
    "staging_dir_url": ("file:///tmp/staging", False),
}
#: The frame, arguments for data in place, and those of files, which have tests of their own.
WITHOUT_ROW = {
    *("df", "version", "timestamp", "storage_options"),
    *("files", "files_below", "max_file_bytes"),
}


@of_values
def test_only_options_that_change_the_copy_create_a_new_one(
    spark: Any, tmp_path: Path, source: Path
) -> None:
    df = spark.read.csv(str(source), "x int").where("x > 1")
    usual: dict[str, Any] = {"parent_cache_dir_url": f"file://{tmp_path}/cache"}
    first = make_spark_converter(df, cache_key="my rows", **usual)
    same = make_spark_converter(df, decimals="decimal", **usual)
    assert same.cache_dir_url == first.cache_dir_url
    for name, (value, is_new) in OPTIONS.items():
        given = {name: f"file://{tmp_path}/b" if name == "parent_cache_dir_url" else value}
        for key in ("my rows",) if is_new else ("my rows", None):
            found = make_spark_converter(df, **{**usual, "cache_key": key, **given})
            assert (found.cache_dir_url != first.cache_dir_url) == is_new, (name, key)
    assert rows(found) == [2, 3]


def test_each_option_of_conversions_has_a_row() -> None:
    assert {*inspect.signature(make_spark_converter).parameters} == {*OPTIONS, *WITHOUT_ROW}


def test_cache_key_reuses_existing_copy_for_different_plan(spark: Any, cache_dir: Path) -> None:
    first = make_spark_converter(spark.range(5))
    named = make_spark_converter(spark.range(5), cache_key="rows")
    found = make_spark_converter(spark.range(6), cache_key="rows")
    assert first.cache_dir_url == named.cache_dir_url == found.cache_dir_url


def test_note_of_a_cache_key_is_removed_with_its_last_copy(spark: Any, cache_dir: Path) -> None:
    first, second = (
        make_spark_converter(spark.range(5), cache_key="rows", dtype=dtype)
        for dtype in ("float32", None)
    )
    for converter, notes in ((first, 1), (second, 0)):
        converter.delete()
        assert len(list(cache_dir.glob("_mdstorm_cache_key_*"))) == notes


def test_cache_key_on_session_that_refuses_reuses_copy(refusing_spark: Any, tmp_path: Path) -> None:
    given = {"parent_cache_dir_url": f"file://{tmp_path}", "cache_key": "rows"}
    first = make_spark_converter(refusing_spark.range(5), **given)
    found = make_spark_converter(refusing_spark.range(6), **given)
    assert found.cache_dir_url == first.cache_dir_url
    assert len(found) == 5


def test_copy_is_in_use_while_a_converter_or_its_loader_exists(spark: Any, cache_dir: Path) -> None:
    converter = make_spark_converter(spark.range(5), cache_key="rows")
    url = converter.cache_dir_url
    assert url is not None

    def is_in_use() -> bool:
        set_age(url, 1_000)
        renew_all()
        (copy,) = list_copies(cache_dir.as_uri())
        return copy.is_in_use

    assert is_in_use()
    pickled, loader = pickle.dumps(converter), converter.make_torch_dataloader(num_epochs=1)
    del converter
    assert is_in_use()
    del loader
    gc.collect()
    assert not is_in_use()
    again = pickle.loads(pickled)  # noqa: S301 - ours
    assert is_in_use()
    assert len(again) == 5
    del again
    assert not is_in_use()
    assert make_spark_converter(spark.range(5), cache_key="rows").cache_dir_url == url
    assert list_copies(cache_dir.as_uri())[0].is_in_use


@of_values
@pytest.mark.parametrize("content", ["", '{"directory": "file:///nowhere"}', None])
def test_unusable_cache_key_file_does_not_prevent_conversion(
    spark: Any, cache_dir: Path, content: str | None
) -> None:
    first = make_spark_converter(spark.range(5), cache_key="rows")
    (note,) = cache_dir.glob("_mdstorm_cache_key_*")
    if content is None:
        first.delete()  # does not delete the cache key file
    else:
        note.write_text(content)
    second = make_spark_converter(spark.range(6), cache_key="rows")
    assert second.cache_dir_url != first.cache_dir_url
    assert len(second) == 6
