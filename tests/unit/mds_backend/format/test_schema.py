"""The JSON form of schemas, and the schemas that a dataset may contain."""

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.kit.small_datasets import array_of, plan, struct_of, write_dataset

from mdstorm_backend.datasets.dataset import Dataset
from mdstorm_backend.errors import CorruptDatasetError
from mdstorm_backend.format.encodings.registry import parse_encoding
from mdstorm_backend.format.index import FileInfo, Index, ShardInfo
from mdstorm_backend.format.schema import Column, Origin, Schema
from mdstorm_backend.format.stored_schema import schema_of

URL = "file:///data/index.json"
FIELDS = {
    "number": "long",
    "ragged": array_of("integer"),
    "pair": array_of("double"),
    "text": "string",
    "thing": struct_of(a="date"),
}
FIELD = {"name": "a", "type": "long", "nullable": True}
ROWS = {
    "number": [1, None],
    "ragged": [[1], [1, 2]],
    "pair": [[1.0, 2.0], [3.0, 4.0]],
    "text": ["a", None],
    "thing": [{"a": 1}, None],
}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return write_dataset(tmp_path_factory.mktemp("d"), ROWS, FIELDS, tasks=2)


def changed(dataset: Dataset, column: str, **changes: object) -> Index:
    extra = json.loads(json.dumps(dataset.index.extra))
    (entry,) = (entry for entry in extra["columns"] if entry["name"] == column)
    entry.update(changes)
    return replace(dataset.index, extra=extra)


def check_is_refused(index: Index) -> None:
    with pytest.raises(CorruptDatasetError, match="holds a schema that does not match") as caught:
        schema_of(index, url=URL)
    assert caught.value.url == URL
    assert "Write the dataset again" in str(caught.value)


def test_unknown_schema_keys_are_ignored(dataset: Dataset) -> None:
    assert schema_of(changed(dataset, "number", later=[1]), url=URL) == dataset.schema


TWINS = {"type": "struct", "fields": [FIELD, FIELD]}
WRONG: dict[tuple[str, str], list[Any]] = {
    ("number", "name"): ["other", "text", 7],
    ("number", "encoding"): ["int32", "str", 7],
    ("number", "spark_type"): [
        *("string", "no such type", 7, "decimal(99,2)"),
        *({}, {"type": "array"}, {"type": ["array"]}),
    ],
    ("number", "nullable"): [1],
    ("number", "null_count"): [-1, True, "1"],
    ("number", "element_null_count"): [None, 1],
    ("number", "length"): [3],
    ("number", "uneven"): [True, 1],
    ("ragged", "length"): [1],
    ("ragged", "encoding"): ["ndarray:int64", "ndarray:int32:0"],
    ("ragged", "spark_type"): [array_of("long")],
    ("ragged", "shape"): [[1], [1, -1], 7],
    ("pair", "length"): [3, -2],
    ("pair", "encoding"): ["ndarray:float64:2,1"],
    ("text", "spark_type"): ["binary"],
    ("thing", "spark_type"): [TWINS, array_of(TWINS)],
}


@pytest.mark.parametrize(
    ("column", "key", "wrong"),
    [(*entry, wrong) for entry in WRONG for wrong in WRONG[entry]],
    ids=lambda value: value if isinstance(value, str) else json.dumps(value),
)
def test_invalid_schema_entry_raises_error(
    dataset: Dataset, column: str, key: str, wrong: object
) -> None:
    check_is_refused(changed(dataset, column, **{key: wrong}))


@pytest.mark.parametrize("columns", [7, "text", {"a": 1}, [7], [[]], [{}], [{"name": "number"}]])
def test_schema_must_be_a_list_of_columns(dataset: Dataset, columns: object) -> None:
    check_is_refused(replace(dataset.index, extra={"columns": columns}))


def test_shard_with_missing_column_or_different_dtype_raises_error(
    dataset: Dataset,
) -> None:
    for dtype in ("int64", "float64"):  # NumPy takes None, an array's own dtype, for float64
        encoding = f"ndarray:{dtype}"
        check_is_refused(changed(dataset, "ragged", spark_type=None, encoding=encoding))
    *shards, last = dataset.index.shards
    names = tuple("other" if name == "number" else name for name in last.column_names)
    check_is_refused(replace(dataset.index, shards=(*shards, last._replace(column_names=names))))


def test_opening_dataset_with_invalid_schema_raises_error_naming_the_index(
    dataset: Dataset,
) -> None:
    index = changed(dataset, "number", encoding="int8")
    with pytest.raises(CorruptDatasetError) as caught:
        Dataset(dataset.location, index).to_table()
    assert caught.value.url == f"{dataset.url}/index.json"


def shard(**encodings: str) -> ShardInfo:
    sizes = tuple(parse_encoding(text).size for text in encodings.values())
    return ShardInfo(
        tuple(encodings), tuple(encodings.values()), sizes, 1, FileInfo("x.mds", 1, {})
    )


def test_schema_round_trips_through_json() -> None:
    schema = plan(FIELDS)
    assert Schema.from_json(json.loads(json.dumps(schema.to_json()))) == schema


@pytest.mark.parametrize(
    ("encodings", "encoding", "length"),
    [
        (["ndarray:int8:3", "ndarray:int8:3"], "ndarray:int8", 3),
        (["ndarray:int8:3", "ndarray:int8:4"], "ndarray:int8", None),
        (["ndarray:int8:3", "ndarray:int8"], "ndarray:int8", None),
        (["ndarray:int8: 3"], "ndarray:int8", 3),
        (["ndarray:ndarray:int8"], "ndarray:ndarray:int8", None),
        (["ndarray:int8:2,3", "ndarray:int8:2,3"], "ndarray:int8:2,3", None),
        (["ndarray:int8:2,3", "ndarray:int8:2,2"], "ndarray:int8", None),
    ],
)
def test_shards_may_contain_arrays_of_different_shapes(
    encodings: list[str], encoding: str, length: int | None
) -> None:
    column = Schema.from_shards([shard(a=text) for text in encodings])["a"]
    assert (column.encoding, column.length) == (encoding, length)


def test_settings_of_an_opened_schema_are_not_written_to_json() -> None:
    plain = Schema((Column("a", "pkl"),))
    opened = plain.opened("file:///data", allow_unsafe_types=True)
    assert opened["a"].origin == Origin("file:///data", True)
    assert opened == plain
    assert opened.to_json() == plain.to_json()


def test_stored_schema_cannot_allow_unsafe_types() -> None:
    (value,) = Schema((Column("a", "pkl"),)).to_json()
    value["origin"] = {"url": "", "allow_unsafe_types": True}
    assert Schema.from_json([value])["a"].origin == Origin()


def test_schema_in_a_line_shows_eight_columns_and_the_number_of_more() -> None:
    columns = tuple(Column(f"c{number}", "int32") for number in range(9))
    assert repr(Schema(columns[:8])).endswith(", c7 int32)")
    assert repr(Schema(columns)).endswith(", c7 int32, … 9 columns)")
