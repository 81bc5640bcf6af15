import json

import pyarrow as pa
import pytest
from tests.mds_backend.small_datasets import array_of, plan, struct_of

from mdstorm_backend.format.encodings.registry import parse_encoding
from mdstorm_backend.format.index import FileInfo, ShardInfo
from mdstorm_backend.format.schema import Column, Origin, Schema

FIELDS = {
    "z": "long",
    "a": array_of("double"),
    "m": struct_of(x="date"),
    "s": array_of("string"),
    "n": "decimal(10,2)",
}


def shard(**encodings: str) -> ShardInfo:
    sizes = tuple(parse_encoding(text).size for text in encodings.values())
    return ShardInfo(
        tuple(encodings), tuple(encodings.values()), sizes, 1, FileInfo("x.mds", 1, {})
    )


def test_a_schema_survives_the_way_through_json() -> None:
    schema = plan(FIELDS)
    assert Schema.from_json(json.loads(json.dumps(schema.to_json()))) == schema


def test_columns_are_found_by_name() -> None:
    schema = plan(FIELDS)
    assert schema["a"] is schema.get("a")
    assert schema.get("unknown") is None
    assert "a" in schema
    assert "unknown" not in schema
    with pytest.raises(KeyError):
        schema["unknown"]


def test_delivered_types_are_those_of_spark_after_the_cast() -> None:
    types = plan(FIELDS, "float32").arrow_schema
    assert types.field("z").type == pa.int64()
    assert types.field("a").type == pa.list_(pa.float32())
    assert types.field("m").type == pa.struct([("x", pa.date32())])
    assert types.field("n").type == pa.decimal128(10, 2)
    assert plan({"d": "double"}, "float32")["d"].arrow_type == pa.float32()
    assert plan({"d": "float"}, "float64")["d"].arrow_type == pa.float64()


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
def test_shards_may_hold_arrays_of_different_shapes(
    encodings: list[str], encoding: str, length: int | None
) -> None:
    column = Schema.from_shards([shard(a=text) for text in encodings])["a"]
    assert (column.encoding, column.length) == (encoding, length)


def test_what_the_reader_knows_is_no_part_of_the_schema() -> None:
    plain = Schema((Column("a", "pkl"),))
    opened = plain.opened("file:///data", allow_unsafe_types=True)
    assert opened["a"].origin == Origin("file:///data", True)
    assert opened == plain
    assert repr(opened) == repr(plain)
    assert opened.to_json() == plain.to_json()
    assert "origin" not in opened.to_json()[0]


def test_a_dataset_cannot_allow_pickles_itself() -> None:
    (value,) = Schema((Column("a", "pkl"),)).to_json()
    value["origin"] = {"url": "", "allow_unsafe_types": True}
    assert Schema.from_json([value])["a"].origin == Origin()
