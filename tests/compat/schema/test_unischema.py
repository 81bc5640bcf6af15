"""`Unischema` and its fields: attributes, views, rows, Spark types, text, pickles."""

import copy
import pickle
import re
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from mdstorm.codecs import CompressedImageCodec, NdarrayCodec, ScalarCodec
from mdstorm.errors import EncodingError, InvalidArgumentError
from mdstorm.unischema import Unischema, UnischemaField, dict_to_spark_row, match_unischema_fields

types = pytest.importorskip("pyspark.sql.types")

ID = UnischemaField("id", np.int64, (), ScalarCodec(types.LongType()))
IMAGE = UnischemaField("image", np.uint8, (None, None, 3), CompressedImageCodec("png"))
NAME = UnischemaField("name", np.str_, (), ScalarCodec(types.StringType()), True)
SCHEMA = Unischema("Sch", [ID, IMAGE, NAME])


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


def test_rows_pickle() -> None:
    row = SCHEMA.make_namedtuple(id=1, image=np.arange(3), name="x")
    found = pickle.loads(pickle.dumps(row))  # noqa: S301  # our own
    assert type(found) is type(row)
    assert found.image.tolist() == [0, 1, 2]
    assert copy.copy(row) == row


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64, np.float16, Decimal, np.datetime64, int])
def test_other_scalars_need_a_codec(dtype: Any) -> None:
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


def test_values_are_encoded_in_the_order_of_the_schema() -> None:
    row = dict_to_spark_row(ENCODED, ROW)
    assert list(row.__fields__) == ["id", "name", "vec", "plain", "list"]
    assert (row.id, row.name, row.plain, row.list) == (3, "x", 4, [1, 2])
    assert type(row.plain) is int
    assert type(row.vec) is bytearray
    assert NdarrayCodec().decode(ENCODED.vec, row.vec).tolist() == [1, 1]


def test_binaries_of_numpy_become_bytes_which_spark_takes() -> None:
    for codec in (ScalarCodec(types.BinaryType()), None):
        schema = Unischema("S", [UnischemaField("data", np.bytes_, (), codec)])
        (data,) = dict_to_spark_row(schema, {"data": np.bytes_(b"a\0b")})
        assert (type(data), data) == (bytes, b"a\0b")


def test_nullable_fields_may_be_missing_or_none() -> None:
    row = dict_to_spark_row(ENCODED, {"id": 1, "plain": 2, "name": None})
    assert tuple(row) == (1, None, None, 2, None)


def test_the_given_row_stays_as_it_is() -> None:
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
def test_rows_that_do_not_fit_are_refused(row: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        dict_to_spark_row(ENCODED, row)
    assert isinstance(caught.value, (InvalidArgumentError, EncodingError))
