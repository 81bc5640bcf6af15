"""Schemas as JSON, as an index keeps them."""

import json
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from tests.compat.schema.schemas import EVERYTHING

from mdstorm._datasets.decoded_source import unischema_from_json, unischema_to_json
from mdstorm._schema import NamedSparkType, class_name, spark_type_json
from mdstorm.codecs import NdarrayCodec, ScalarCodec
from mdstorm.errors import CorruptDatasetError
from mdstorm.unischema import Unischema, UnischemaField


def through_json(schema: Unischema) -> Unischema:
    return unischema_from_json(json.loads(json.dumps(unischema_to_json(schema))))


def test_schemas_come_back_as_they_were() -> None:
    found = through_json(EVERYTHING)
    assert str(found) == str(EVERYTHING)
    assert list(found.fields.values()) == list(EVERYTHING.fields.values())


@pytest.mark.parametrize(
    "dtype",
    [
        *(np.int8, np.uint64, np.float16, np.bool_, np.str_, np.bytes_, np.datetime64),
        *(np.timedelta64, np.object_, np.complex64, Decimal, int, float, str, bytes, bool),
    ],
)
def test_types_come_back_as_they_were(dtype: Any) -> None:
    schema = Unischema("S", [UnischemaField("a", dtype, (None, 3))])
    assert through_json(schema).fields["a"].numpy_dtype is dtype


def test_dtypes_come_back_as_types() -> None:
    schema = Unischema("S", [UnischemaField("a", np.dtype(">i4"), ())])
    assert through_json(schema).fields["a"].numpy_dtype is np.int32


class OwnArrays(NdarrayCodec):
    """A user's own."""


class OwnScalars(ScalarCodec):
    """A user's own."""


@pytest.mark.parametrize("codec", [OwnArrays(), OwnScalars(NamedSparkType("byte"))], ids=type)
def test_codecs_of_a_users_own_are_left_out(codec: Any) -> None:
    schema = Unischema("S", [UnischemaField("a", np.int8, (2,), codec)])
    assert through_json(schema).fields["a"].codec is None


@pytest.mark.parametrize(
    "change",
    [
        {"name": 1},
        {"shape": [-1]},
        {"shape": 3},
        {"shape": ["a"]},
        {"numpy_dtype": "nothing"},
        {"numpy_dtype": "i4,i4"},
        {"codec": {"type": "os.system"}},
        {"codec": {"type": "ScalarCodec"}},
    ],
)
def test_other_values_are_refused(change: dict[str, Any]) -> None:
    value = unischema_to_json(EVERYTHING)
    value["fields"][0].update(change)
    with pytest.raises(CorruptDatasetError, match="here holds a Unischema that cannot be read"):
        unischema_from_json(value, url="here")
    for wrong in (None, [], "text", {"name": "x"}):
        with pytest.raises(CorruptDatasetError):
            unischema_from_json(wrong)


def test_spark_types_are_known_by_their_names() -> None:
    types = pytest.importorskip("pyspark.sql.types")
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
