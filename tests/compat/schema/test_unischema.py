"""`Unischema` and its fields: attributes, views, rows, Spark types, text, pickles."""

import copy
import pickle
import re
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from tests.compat.schema.schemas import EVERYTHING

from mdstorm.codecs import CompressedImageCodec, NdarrayCodec, ScalarCodec
from mdstorm.errors import ArgumentTypeError, InvalidArgumentError
from mdstorm.unischema import Unischema, UnischemaField, match_unischema_fields

types = pytest.importorskip("pyspark.sql.types")

ID = UnischemaField("id", np.int64, (), ScalarCodec(types.LongType()))
IMAGE = UnischemaField("image", np.uint8, (None, None, 3), CompressedImageCodec("png"))
NAME = UnischemaField("name", np.str_, (), ScalarCodec(types.StringType()), True)
SCHEMA = Unischema("Sch", [ID, IMAGE, NAME])


def test_fields_are_tuples_with_defaults() -> None:
    field = UnischemaField("a", np.int32, (2, None))
    assert tuple(field) == ("a", np.int32, (2, None), None, False)
    assert field._fields == ("name", "numpy_dtype", "shape", "codec", "nullable")
    assert field._replace(nullable=True).nullable


def test_the_codec_does_not_count_when_fields_are_compared() -> None:
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


def test_fields_are_attributes_in_order() -> None:
    assert list(SCHEMA.fields) == ["id", "image", "name"]
    assert SCHEMA.image is IMAGE
    with pytest.raises(AttributeError):
        _ = SCHEMA.other


def test_names_that_are_taken_are_fields_all_the_same() -> None:
    with pytest.warns(UserWarning, match="Can not create dynamic property fields"):
        schema = Unischema("S", [UnischemaField("fields", np.int32, ())])
    assert schema.fields["fields"].name == "fields"


def test_a_schema_is_made_of_fields() -> None:
    with pytest.raises(ArgumentTypeError, match="found 'id' of type str"):
        Unischema("S", ["id"])  # type: ignore[list-item]


def test_views_have_the_given_fields_then_the_matched_ones() -> None:
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
def test_views_of_anything_else_are_refused(fields: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        SCHEMA.create_schema_view(fields)
    assert isinstance(caught.value, ValueError)


def test_patterns_match_whole_names() -> None:
    assert match_unischema_fields(SCHEMA, ["na.*", "id"]) == [ID, NAME]
    with pytest.warns(UserWarning, match=r"to get id, image, name$"):
        assert match_unischema_fields(SCHEMA, ["i", "nam"]) == []
    assert match_unischema_fields(SCHEMA, ["name", "i", "id", "image"]) == [ID, IMAGE, NAME]
    assert match_unischema_fields(SCHEMA, []) == []
    with pytest.raises(re.error):
        match_unischema_fields(SCHEMA, ["("])


def test_rows_are_namedtuples_of_one_type_per_schema() -> None:
    row = SCHEMA.make_namedtuple(name="x", image=None, id=1)
    assert repr(row) == "Sch_view(id=1, image=None, name='x')"
    assert SCHEMA.make_namedtuple_tf(1, None, name="x") == row
    assert type(Unischema("Sch", [ID, IMAGE, NAME]).make_namedtuple_tf(1, 2, 3)) is type(row)
    view = SCHEMA.create_schema_view(["id"])
    assert repr(view.make_namedtuple(id=5)) == "Sch_view_view(id=5)"
    with pytest.raises(TypeError, match="missing 2 required positional arguments"):
        SCHEMA.make_namedtuple(id=1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'q'"):
        SCHEMA.make_namedtuple(id=1, image=2, name=3, q=4)


@pytest.mark.parametrize("name", ["a b", "_a", "class"])
def test_rows_need_names_that_are_identifiers(name: str) -> None:
    schema = Unischema("S", [UnischemaField(name, np.int8, ())])
    with pytest.raises(ValueError, match=r"Type names and field names|Field names"):
        schema.make_namedtuple(**{name: 1})


def test_rows_pickle() -> None:
    row = SCHEMA.make_namedtuple(id=1, image=np.arange(3), name="x")
    found = pickle.loads(pickle.dumps(row))  # noqa: S301  # our own
    assert type(found) is type(row)
    assert found.image.tolist() == [0, 1, 2]
    assert copy.copy(row) == row


def test_schemas_pickle() -> None:
    found = pickle.loads(pickle.dumps(SCHEMA))  # noqa: S301  # our own
    assert str(found) == str(SCHEMA)
    assert found.id == ID
    assert copy.deepcopy(SCHEMA).fields == SCHEMA.fields


def test_the_text_shows_every_field() -> None:
    assert str(SCHEMA) == (
        "Unischema(Sch, [\n"
        "  UnischemaField('id', int64, (), ScalarCodec(LongType()), False),\n"
        "  UnischemaField('image', uint8, (None, None, 3), CompressedImageCodec('png', 80), "
        "False),\n"
        "  UnischemaField('name', str_, (), ScalarCodec(StringType()), True),\n"
        "])"
    )


def test_spark_types_are_those_of_the_codecs() -> None:
    assert EVERYTHING.as_spark_schema() == types.StructType(
        [
            types.StructField("id", types.LongType(), False),
            types.StructField("name", types.StringType(), True),
            types.StructField("price", types.DecimalType(10, 2), False),
            types.StructField("at", types.TimestampType(), False),
            types.StructField("flag", types.BooleanType(), False),
            types.StructField("vec", types.BinaryType(), False),
            types.StructField("mat", types.BinaryType(), True),
            types.StructField("zipped", types.BinaryType(), True),
            types.StructField("png", types.BinaryType(), False),
            types.StructField("jpeg", types.BinaryType(), True),
        ]
    )


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (np.int8, "byte"),
        (np.uint8, "short"),
        (np.int16, "short"),
        (np.uint16, "integer"),
        (np.int32, "integer"),
        (np.int64, "long"),
        (np.float32, "float"),
        (np.float64, "double"),
        (np.str_, "string"),
        (np.bytes_, "string"),
        (np.bool_, "boolean"),
        (np.dtype("int32"), "integer"),
    ],
)
def test_scalars_without_a_codec_have_spark_types(dtype: Any, name: str) -> None:
    schema = Unischema("S", [UnischemaField("a", dtype, ())]).as_spark_schema()
    assert schema["a"].dataType.typeName() == name


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64, np.float16, Decimal, np.datetime64, int])
def test_other_scalars_need_a_codec(dtype: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="Was not able to map type"):
        Unischema("S", [UnischemaField("a", dtype, ())]).as_spark_schema()


def test_arrays_need_a_codec() -> None:
    with pytest.raises(InvalidArgumentError, match="'a' has codec set to None"):
        Unischema("S", [UnischemaField("a", np.int8, (2,))]).as_spark_schema()
