"""Telling table names from paths."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdstorm_backend import LocalDataset, open_dataset
from mdstorm_backend.catalogs import (
    TableName,
    check_no_table_name,
    hint_of_parts,
    table_name,
)
from mdstorm_backend.errors import DatasetNotFoundError, UnsupportedURLError

part = st.text("abZ_09 .`/é-", min_size=1, max_size=6)


@given(part, part, part)
def test_table_name_is_parsed_from_url_and_quoted_form(
    catalog: str, schema: str, table: str
) -> None:
    name = TableName(catalog, schema, table)
    assert table_name(name.url) == name
    assert table_name("uc://" + ".".join("`" + p.replace("`", "``") + "`" for p in name)) == name


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("main.sales.orders", ("main", "sales", "orders")),
        ("uc://main.sales.orders", ("main", "sales", "orders")),
        ("UC://main.sales.orders/", ("main", "sales", "orders")),
        ("`main`.`sales`.`orders`", ("main", "sales", "orders")),
        ("a.b.`c d`", ("a", "b", "c d")),
        ("`a.b`.c.d", ("a.b", "c", "d")),
        ("my-cat.s._t", ("my-cat", "s", "_t")),
        ("uc://1.2.3", ("1", "2", "3")),
    ],
)
def test_three_part_strings_are_parsed_as_table_names(text: str, parts: tuple[str, ...]) -> None:
    assert table_name(text) == parts


@pytest.mark.parametrize(
    "text",
    ["a.json", "a/b.c.d", "file:///a.b.c", "a.b.c.d", "./a.b.c", "a..b", "1.2.3", "s3://a.b.c"],
)
def test_paths_and_other_strings_are_not_table_names(text: str) -> None:
    assert table_name(text) is None
    check_no_table_name(text)


@pytest.mark.parametrize("text", ["sales.orders", "_a-b.T1", "a.v2"])
def test_missing_path_that_may_be_a_table_name_raises_error_with_hint(text: str) -> None:
    assert hint_of_parts(text).endswith(f"its name has three parts: catalog.{text}")
    with pytest.raises(DatasetNotFoundError, match=f"no dataset at file:///.*/{text}: .* three p"):
        open_dataset(text)


@pytest.mark.parametrize(
    "text",
    [
        *("a", "a.b.c", "a.parquet", "a.JSON", "a/b.c", "./a.b", "~/a.b", "file:a.b", "s3://a.b"),
        *("a b.c", "1.5", "a.5", "a.", ".b", "a..b", "*.b", 7, None),
    ],
)
def test_error_for_path_that_cannot_be_a_table_name_has_no_table_hint(text: object) -> None:
    assert hint_of_parts(text) == ""


def test_error_for_existing_two_part_path_has_no_table_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.b").mkdir()
    (tmp_path / "a.c").symlink_to("nothing")
    assert hint_of_parts("a.b") == hint_of_parts("a.c") == ""


@pytest.mark.parametrize(
    "text", ["uc://sales.orders", "uc://", "uc://a.b.c.d", "`a`.b", "uc://a..c"]
)
def test_table_name_without_three_parts_raises_error(text: str) -> None:
    with pytest.raises(UnsupportedURLError, match=r"has three parts: write catalog\.schema\.table"):
        table_name(text)


def test_existing_path_takes_precedence_over_a_table_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert table_name("main.sales.orders") is not None
    (tmp_path / "main.sales.orders").mkdir()
    assert table_name("main.sales.orders") is None
    assert table_name("uc://main.sales.orders") is not None


def test_reading_table_name_as_mds_raises_error_naming_the_readers() -> None:
    with pytest.raises(
        DatasetNotFoundError, match=r"make_batch_reader\('a\.b\.`c d`'\).*mdstorm conv"
    ):
        LocalDataset("uc://a.b.`c d`")
