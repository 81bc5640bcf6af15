"""`Unischema` and its fields: views, rows, Spark types, JSON, and fields inferred from columns."""

import copy
import json
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kit.parquet_files import open_parquet
from tests.unit.compat.schema.pickles import EVERYTHING, protocol_0

from mdstorm._datasets import UNISCHEMA_EXTRA, stored_unischema, unischema_to_json
from mdstorm._pickles import load_unischema
from mdstorm._schema import NamedSparkType, class_name, spark_type_json
from mdstorm.codecs import CompressedImageCodec, NdarrayCodec, ScalarCodec
from mdstorm.errors import CorruptDatasetError, EncodingError, InvalidArgumentError
from mdstorm.unischema import (
    Unischema,
    UnischemaField,
    dict_to_spark_row,
    infer_unischema,
    match_unischema_fields,
)
from mdstorm_backend import open_dataset
from mdstorm_backend.write.mds_writer import MDSWriter

types = pytest.importorskip("pyspark.sql.types")

ID = UnischemaField("id", np.int64, (), ScalarCodec(types.LongType()))
IMAGE = UnischemaField("image", np.uint8, (None, None, 3), CompressedImageCodec("png"))
NAME = UnischemaField("name", np.str_, (), ScalarCodec(types.StringType()), True)
SCHEMA = Unischema("Sch", [ID, IMAGE, NAME])


def test_field_comparison_ignores_codec() -> None:
    one, other = (
        UnischemaField("a", np.int32, ()),
        UnischemaField("a", np.int32, (), NdarrayCodec()),
    )
    assert one == other
    assert not one != other  # noqa: SIM202  # the operator itself
    assert hash(one) == hash(other)
    for different in (
        one._replace(name="b"),
        one._replace(numpy_dtype=np.int64),
        one._replace(shape=(1,)),
        one._replace(nullable=True),
        tuple(one),
        None,
    ):
        assert one != different
        assert not one == different  # noqa: SIM201


def test_view_lists_given_fields_before_pattern_matches() -> None:
    view = SCHEMA.create_schema_view([NAME, "i.*"])
    assert view._name == "Sch_view"
    assert list(view.fields) == ["name", "id", "image"]
    assert list(SCHEMA.create_schema_view(["name", "id"]).fields) == ["id", "name"]
    with pytest.warns(UserWarning, match="schema_fields behavior has changed"):
        assert list(SCHEMA.create_schema_view(["i", "nam"]).fields) == []
    assert list(SCHEMA.create_schema_view([ID, "id", ID]).fields) == ["id"]
    other = UnischemaField("id", np.int8, ())
    assert SCHEMA.create_schema_view([other]).id is ID


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([UnischemaField("zz", np.int8, ())], "field 'zz' does not belong to the schema Unischema"),
        ([1], 'Elements of "fields" must be either a string .regular expressions. or an instance'),
        ("id", "Give a list: .'id'."),
        (ID, "Give a list: "),
    ],
)
def test_view_with_invalid_fields_raises_error(fields: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        SCHEMA.create_schema_view(fields)


def test_field_patterns_match_whole_names() -> None:
    assert match_unischema_fields(SCHEMA, ["na.*", "id"]) == [ID, NAME]
    with pytest.warns(UserWarning, match=r"to get id, image, name$"):
        assert match_unischema_fields(SCHEMA, ["i", "nam"]) == []
    assert match_unischema_fields(SCHEMA, ["name", "i", "id", "image"]) == [ID, IMAGE, NAME]
    assert match_unischema_fields(SCHEMA, []) == []


def test_rows_with_the_same_schema_share_a_namedtuple_type() -> None:
    row = SCHEMA.make_namedtuple(name="x", image=None, id=1)
    assert repr(row) == "Sch_view(id=1, image=None, name='x')"
    assert SCHEMA.make_namedtuple_tf(1, None, name="x") == row
    assert type(Unischema("Sch", [ID, IMAGE, NAME]).make_namedtuple_tf(1, 2, 3)) is type(row)
    view = SCHEMA.create_schema_view(["id"])
    assert repr(view.make_namedtuple(id=5)) == "Sch_view_view(id=5)"


def test_rows_can_be_pickled() -> None:
    row = SCHEMA.make_namedtuple(id=1, image=np.arange(3), name="x")
    found = pickle.loads(pickle.dumps(row))  # noqa: S301  # our own
    assert type(found) is type(row)
    assert found.image.tolist() == [0, 1, 2]
    assert copy.copy(row) == row


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64, np.float16, Decimal, np.datetime64, int])
def test_scalar_type_unknown_to_spark_without_codec_raises_error(dtype: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="Was not able to map type"):
        Unischema("S", [UnischemaField("a", dtype, ())]).as_spark_schema()


ENCODED = Unischema(
    "S",
    [
        UnischemaField("id", np.int64, (), ScalarCodec(types.LongType())),
        UnischemaField("name", np.str_, (), ScalarCodec(types.StringType()), True),
        UnischemaField("vec", np.float32, (2,), NdarrayCodec(), True),
        UnischemaField("plain", np.int32, ()),
        UnischemaField("list", np.int32, (None,), None, True),
    ],
)
ROW: dict[str, Any] = {
    "plain": np.int32(4),
    "list": [1, 2],
    "name": "x",
    "id": 3.9,
    "vec": np.ones(2, np.float32),
}


def test_values_are_encoded_in_schema_order() -> None:
    row = dict_to_spark_row(ENCODED, ROW)
    assert list(row.__fields__) == ["id", "name", "vec", "plain", "list"]
    assert (row.id, row.name, row.plain, row.list) == (3, "x", 4, [1, 2])
    assert type(row.plain) is int
    assert type(row.vec) is bytearray
    assert NdarrayCodec().decode(ENCODED.vec, row.vec).tolist() == [1, 1]


def test_numpy_binaries_are_encoded_as_bytes_for_spark() -> None:
    for codec in (ScalarCodec(types.BinaryType()), None):
        schema = Unischema("S", [UnischemaField("data", np.bytes_, (), codec)])
        (data,) = dict_to_spark_row(schema, {"data": np.bytes_(b"a\0b")})
        assert (type(data), data) == (bytes, b"a\0b")


def test_nullable_fields_may_be_missing_or_none() -> None:
    row = dict_to_spark_row(ENCODED, {"id": 1, "plain": 2, "name": None})
    assert tuple(row) == (1, None, None, 2, None)


def test_encoding_does_not_modify_the_given_row() -> None:
    given = {"id": 1, "plain": 2}
    dict_to_spark_row(ENCODED, given)
    assert given == {"id": 1, "plain": 2}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({**ROW, "id": None}, "Field 'id' is not \"nullable\""),
        ({**ROW, "vec": np.ones(3, np.float32)}, "Unexpected dimensions of vec feature"),
    ],
)
def test_row_that_does_not_match_schema_raises_error(row: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        dict_to_spark_row(ENCODED, row)
    assert isinstance(caught.value, (InvalidArgumentError, EncodingError))


ARROW_TYPES: list[tuple[pa.DataType, Any, tuple[int | None, ...]]] = [
    (pa.bool_(), np.bool_, ()),
    (pa.int64(), np.int64, ()),
    (pa.string(), np.str_, ()),
    (pa.binary(), np.bytes_, ()),
    (pa.date32(), np.datetime64, ()),
    (pa.timestamp("us", tz="UTC"), np.datetime64, ()),
    (pa.decimal128(10, 2), Decimal, ()),
    (pa.list_(pa.float64()), np.float64, (None,)),
    (pa.list_(pa.string()), np.str_, (None,)),
    (pa.list_(pa.int16(), 4), np.int16, (4,)),
    (pa.dictionary(pa.int32(), pa.string()), np.str_, ()),
]


@pytest.mark.parametrize(
    ("type_", "dtype", "shape"), ARROW_TYPES, ids=[str(t[0]) for t in ARROW_TYPES]
)
def test_arrow_types_map_to_field_types(
    type_: pa.DataType, dtype: Any, shape: tuple[int | None, ...]
) -> None:
    fields = pa.schema([pa.field("a", type_, nullable=False), pa.field("b", type_)])
    schema = Unischema.from_arrow_schema(fields)
    assert schema._name == "inferred_schema"
    assert tuple(schema.fields["a"]) == ("a", dtype, shape, None, False)
    assert schema.fields["b"].nullable


def test_inferred_schema_lists_partition_columns_first(tmp_path: Path) -> None:
    pq.write_to_dataset(
        pa.table({"a": [1, 2], "year": [2020, 2021], "kind": ["x", "y"]}),
        tmp_path,
        partition_cols=["year", "kind"],
    )
    for dataset in (pq.ParquetDataset(tmp_path), open_parquet(str(tmp_path))):
        schema = Unischema.from_arrow_schema(dataset)
        assert [(f.name, f.numpy_dtype) for f in schema.fields.values()] == [
            ("year", np.int64),
            ("kind", np.str_),
            ("a", np.int64),
        ]


def test_schema_inferred_from_unpartitioned_files_keeps_column_types(tmp_path: Path) -> None:
    pq.write_table(pa.table({"f": [0.5], "b": [True], "y": [b"x"]}), tmp_path / "a.parquet")
    for path in (tmp_path, tmp_path / "a.parquet"):
        schema = Unischema.from_arrow_schema(pq.ParquetDataset(path))
        assert [f.numpy_dtype for f in schema.fields.values()] == [np.float64, np.bool_, np.bytes_]


def test_inferring_schema_from_unsupported_object_raises_error() -> None:
    with pytest.raises(InvalidArgumentError, match="has no Arrow schema"):
        Unischema.from_arrow_schema("url")


def test_mds_columns_become_fields(tmp_path: Path) -> None:
    columns = {"a": "ndarray:float32:2,3", "b": "png", "c": "int32", "d": "str", "e": "ndarray"}
    from PIL import Image

    with MDSWriter(columns=columns, out=str(tmp_path)) as writer:
        array = np.zeros((2, 3), np.float32)
        image = Image.new("RGB", (2, 2))
        writer.write({"a": array, "b": image, "c": np.int32(1), "d": "x", "e": array})
    schema = infer_unischema(open_dataset(str(tmp_path)).schema)
    assert {name: (f.numpy_dtype, f.shape) for name, f in schema.fields.items()} == {
        "a": (np.float32, (2, 3)),
        "b": (np.uint8, (None, None, None)),
        "c": (np.int32, ()),
        "d": (np.str_, ()),
    }


def stored(directory: Path, value: Any) -> Unischema:
    """Write a value into the index of an MDS dataset, and return the schema that it stands for."""
    with MDSWriter(columns={"a": "int32"}, out=str(directory), exist_ok=True) as writer:
        writer.write({"a": np.int32(1)})
    index = json.loads((directory / "index.json").read_bytes())
    index["mdstorm"] = {UNISCHEMA_EXTRA: value}
    (directory / "index.json").write_text(json.dumps(index))
    schema = stored_unischema(open_dataset(str(directory)))
    assert schema is not None
    return schema


def test_schemas_survive_being_stored_in_an_index(tmp_path: Path) -> None:
    found = stored(tmp_path, unischema_to_json(EVERYTHING))
    assert str(found) == str(EVERYTHING)
    assert list(found.fields.values()) == list(EVERYTHING.fields.values())


def test_stored_schema_may_name_image_format_that_pillow_cannot_write(tmp_path: Path) -> None:
    schema = load_unischema(protocol_0().replace(b"S'.png'", b"S'.exr'"))
    for found in (schema, stored(tmp_path, unischema_to_json(schema))):
        assert str(found.fields["im"].codec) == "CompressedImageCodec('exr', 80)"


@pytest.mark.parametrize(
    "dtype",
    [
        *(np.int8, np.uint64, np.float16, np.bool_, np.str_, np.bytes_, np.datetime64),
        *(np.timedelta64, np.object_, np.complex64, Decimal, int, float, str, bytes, bool),
    ],
)
def test_field_types_survive_being_stored_in_an_index(dtype: Any, tmp_path: Path) -> None:
    schema = Unischema("S", [UnischemaField("a", dtype, (None, 3))])
    assert stored(tmp_path, unischema_to_json(schema)).fields["a"].numpy_dtype is dtype


def test_numpy_dtypes_are_stored_in_an_index_as_types(tmp_path: Path) -> None:
    schema = Unischema("S", [UnischemaField("a", np.dtype(">i4"), ())])
    assert stored(tmp_path, unischema_to_json(schema)).fields["a"].numpy_dtype is np.int32


class OwnArrays(NdarrayCodec):
    """A user-defined array codec."""


class OwnScalars(ScalarCodec):
    """A user-defined scalar codec."""


@pytest.mark.parametrize("codec", [OwnArrays(), OwnScalars(NamedSparkType("byte"))], ids=type)
def test_user_defined_codecs_are_not_stored_in_an_index(codec: Any, tmp_path: Path) -> None:
    schema = Unischema("S", [UnischemaField("a", np.int8, (2,), codec)])
    assert stored(tmp_path, unischema_to_json(schema)).fields["a"].codec is None


@pytest.mark.parametrize(
    "change",
    [
        *({"name": 1}, {"shape": [-1]}, {"shape": 3}, {"shape": ["a"]}),
        *({"numpy_dtype": "nothing"}, {"numpy_dtype": "i4,i4"}),
        *({"codec": {"type": "os.system"}}, {"codec": {"type": "ScalarCodec"}}),
    ],
)
def test_invalid_schema_in_an_index_raises_error(change: dict[str, Any], tmp_path: Path) -> None:
    value = unischema_to_json(EVERYTHING)
    value["fields"][0].update(change)
    message = f"{tmp_path.as_uri()} holds a Unischema that cannot be read"
    for wrong in (value, [], "text", {"name": "x"}):
        with pytest.raises(CorruptDatasetError, match=message):
            stored(tmp_path, wrong)


def test_spark_types_are_restored_from_their_names() -> None:
    for type_ in (
        types.LongType(),
        types.StringType(),
        types.DecimalType(12, 3),
        types.ArrayType(types.FloatType(), False),
        types.TimestampNTZType(),
    ):
        named = NamedSparkType(spark_type_json(type_))
        assert named.load() == type_
        assert class_name(named) == class_name(type_) == type(type_).__name__
        assert str(ScalarCodec(named)) == str(ScalarCodec(type_))
    assert spark_type_json(types.LongType) == "long"


def test_new_schema_makes_no_messages_about_missing_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr("mdstorm.unischema.choose_among", lambda *names: made.append(names) or "")
    schema = Unischema("Two", [UnischemaField(name, np.int64, ()) for name in ("id", "day")])
    assert not made
    assert not hasattr(schema, "idd")
    assert len(made) == 1


def test_field_named_like_a_method_of_classes_is_an_attribute() -> None:
    field = UnischemaField("mro", np.int64, ())
    assert Unischema("One", [field]).mro == field
