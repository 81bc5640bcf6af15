"""``rows=`` of a converter's loaders and of readers: an epoch consists of these rows."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
from tests.kit.readers import batch_reader, write_parquet
from tests.unit.compat.spark.converters import (
    IN_ORDER,
    Numbers,
    with_each,
    with_each_in_either_order,
)

from mdstorm import make_reader
from mdstorm.errors import (
    CorruptDatasetError,
    DatasetNotFoundError,
    InvalidArgumentError,
    UnsupportedArgumentError,
)
from mdstorm.ngram import NGram
from mdstorm.predicates import in_set
from mdstorm.selectors import SingleIndexSelector
from mdstorm.spark import SparkDatasetConverter, make_spark_converter

pytestmark = pytest.mark.filterwarnings("ignore:Currently make_reader")


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"rows": [3, 211]}, "rows has row 211, but the 211 rows"),
        ({"rows": [-1]}, "rows has row -1"),
        ({"rows": [True] * 3}, "rows has 3 values"),
        ({"where": [("no", "=", 1)]}, "has no column 'no'"),
        ({"where": pc.field("no") > 1}, "no > 1"),
        ({"where": [("number", "=", "a")]}, "cannot compare column 'number'"),
    ],
    ids=str,
)
def test_choice_that_does_not_match_raises_error_when_the_loader_is_made(
    small_shards: SparkDatasetConverter, choice: dict[str, Any], words: str
) -> None:
    converter = make_spark_converter(str(small_shards.cache_dir_url))
    with pytest.raises(InvalidArgumentError, match=words):
        converter.make_torch_dataloader(**choice)
    converter.file_urls = converter.file_urls[:1]  # their rows are known only once they are opened
    converter.make_torch_dataloader(**choice)


def test_choice_is_checked_without_reading(tmp_path: Path) -> None:
    url = write_parquet(tmp_path, {"number": range(9)})
    converter = make_spark_converter(url)
    for file in tmp_path.rglob("*.parquet"):
        file.unlink()
    loader = converter.make_torch_dataloader(rows=[1, 2], where=[("number", ">", 1)])
    with pytest.raises(DatasetNotFoundError):
        next(iter(loader))


@pytest.mark.newest  # the lowest pyarrow writes no float16 to Parquet
def test_conditions_are_checked_with_the_types_that_are_read(tmp_path: Path) -> None:
    # Arrow does not compare float16.
    converter = make_spark_converter(write_parquet(tmp_path, {"x": np.arange(3, dtype="f2")}))
    options: dict[str, Any] = {"where": [("x", ">", 1.0)], "num_epochs": 1}
    with pytest.raises(InvalidArgumentError, match="cannot compare column 'x' of type halffloat"):
        converter.make_torch_dataloader(**options)
    loader = converter.make_torch_dataloader(**options, dtype="float32")
    assert [batch["x"].tolist() for batch in loader] == [[2.0]]


@with_each_in_either_order
def test_chosen_rows_are_read_in_their_order_without_shuffling(
    small_shards: SparkDatasetConverter, numbers: Numbers, order: str
) -> None:
    options = {"order": order, **IN_ORDER}
    rows = [5, 3, 3, 200, *range(60, 70)]
    assert numbers(small_shards, rows=rows, **options) == rows
    where = (pc.field("number") < 3) | (pc.field("number") == 207)
    assert numbers(small_shards, where=where, **options) == [0, 1, 2, 207]
    assert numbers(small_shards, where=where, rows=[207, 5, 1, 1], **options) == [207, 1, 1]


@with_each
@pytest.mark.parametrize(
    ("other", "name"),
    [
        ({"predicate": in_set({1}, "number")}, "predicate="),
        ({"filters": [("number", "<", 5)]}, "filters="),
        ({"rowgroup_selector": SingleIndexSelector("index", ["a"])}, "rowgroup_selector="),
    ],
    ids=["predicate", "filters", "selector"],
)
def test_rows_with_another_selection_raise_an_error(
    small_shards: SparkDatasetConverter, numbers: Numbers, other: dict[str, Any], name: str
) -> None:
    with pytest.raises(UnsupportedArgumentError, match=rf"rows= states the rows.*{name}"):
        numbers(small_shards, rows=[1, 2], **other, **IN_ORDER)


def test_rows_with_ngram_raise_an_error(small_shards: SparkDatasetConverter) -> None:
    fields = NGram({0: ["number"], 1: ["number"]}, 1, "number")
    with pytest.raises(UnsupportedArgumentError, match=r"rows= states the rows.*an NGram"):
        make_reader(small_shards.cache_dir_url, schema_fields=fields, rows=[1])


@pytest.fixture
def two_files(tmp_path: Path) -> str:
    """Two partitions, the second of which can be opened but not read, with rows from 10 to 19."""
    for number in range(2):
        columns = {"number": range(10 * number, 10 * number + 10)}
        write_parquet(tmp_path / "data" / f"part={number}", columns)
    path = tmp_path / "data" / "part=1" / "part.parquet"
    content = path.read_bytes()
    path.write_bytes(content[:4] + bytes(100) + content[104:])
    return f"file://{tmp_path}/data"


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("where", [[("number", "<", 7)], [("part", "=", "0"), ("number", "<", 7)]])
def test_row_groups_that_cannot_match_are_not_read(two_files: str, where: Any, parts: int) -> None:
    for name in ("filters", "where"):
        made = batch_reader(two_files, **{name: where}, shuffle_row_drop_partitions=parts)
        assert [int(n) for item in made for n in item.number] == [*range(7)]
    with pytest.raises(CorruptDatasetError):
        batch_reader(two_files, where=pc.field("number") < 7)


def test_partitions_that_cannot_match_leave_no_rows(two_files: str) -> None:
    with pytest.raises(InvalidArgumentError, match="matches none of the 20 rows"):
        batch_reader(two_files, where=[("part", "=", 7)])
    with pytest.raises(InvalidArgumentError, match=r"where=.*'prt'.*part"):
        batch_reader(two_files, where=[("prt", "=", 7)])


def test_split_row_groups_have_the_chosen_rows(tmp_path: Path) -> None:
    url = write_parquet(tmp_path, {"number": range(20)})
    made = batch_reader(url, rows=[1, 3, 9, 17], shuffle_row_drop_partitions=2)
    assert [item.number.tolist() for item in made] == [[1], [3], [9], [17]]
    assert len(made.dataset) == 4
    assert len(made.dataset.files) == 1
