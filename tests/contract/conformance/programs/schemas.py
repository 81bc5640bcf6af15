"""`Unischema`, its fields and codecs, without a dataset."""

import pickle
from decimal import Decimal
from typing import Any

import numpy as np
from petastorm.codecs import (
    CompressedImageCodec,
    CompressedNdarrayCodec,
    DataframeColumnCodec,
    NdarrayCodec,
    ScalarCodec,
)
from petastorm.etl.dataset_metadata import (
    ROW_GROUPS_PER_FILE_KEY,
    UNISCHEMA_KEY,
    get_schema_from_dataset_url,
)
from petastorm.etl.rowgroup_indexing import ROWGROUPS_INDEX_KEY
from petastorm.unischema import Unischema, UnischemaField, insert_explicit_nulls
from pyspark.sql import types as T  # noqa: N812
from tests.contract.conformance.describing import error_of, warnings_of
from tests.contract.conformance.place import Place

_ID = UnischemaField("id", np.int64, (), ScalarCodec(T.LongType()), False)
_NAME = UnischemaField("name", np.str_, (), ScalarCodec(T.StringType()), True)
_MATRIX = UnischemaField("matrix", np.float32, (2, None), NdarrayCodec(), False)
_IMAGE = UnischemaField("image", np.uint8, (None, None, 3), CompressedImageCodec("png"), True)
_SCHEMA = Unischema("Sch", [_ID, _NAME, _MATRIX, _IMAGE])


def _plain(field: Any) -> Any:
    return [field.name, field.numpy_dtype, list(field.shape), str(field.codec), field.nullable]


def fields_are_tuples(place: Place) -> Any:
    return [_ID._fields, _plain(_ID), _plain(UnischemaField("x", np.int8, ()))]


def schemas_are_written_in_lines(place: Place) -> Any:
    return str(Unischema("Sch", [_ID, _NAME, _MATRIX])).replace("str_", "str")


def names_that_the_schema_needs_itself(place: Place) -> Any:
    field = UnischemaField("fields", np.int64, (), None, False)
    return warnings_of(lambda: Unischema("Sch", [field]), "Can not create dynamic property")


def spark_schema(place: Place) -> Any:
    return [
        [field.name, field.dataType.simpleString(), field.nullable]
        for field in _SCHEMA.as_spark_schema().fields
    ]


def spark_schema_without_codecs(place: Place) -> Any:
    types = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.int64, np.float32, np.float64]
    types += [np.str_, np.bytes_, np.bool_]
    fields = [UnischemaField(f"f{i}", type_, (), None, False) for i, type_ in enumerate(types)]
    found = Unischema("Sch", fields).as_spark_schema()
    return [field.dataType.simpleString() for field in found.fields]


def spark_schema_of_arrays_without_codecs(place: Place) -> Any:
    schema = Unischema("Sch", [UnischemaField("x", np.float32, (2,), None, False)])
    return error_of(schema.as_spark_schema, "codec set to None")


def schemas_pickle(place: Place) -> Any:
    copy = pickle.loads(pickle.dumps(_SCHEMA))  # noqa: S301
    return [copy._name, [_plain(field) for field in copy.fields.values()], copy.id == _ID]


def explicit_nulls(place: Place) -> Any:
    row = {"id": 1}
    insert_explicit_nulls(Unischema("Sch", [_ID, _NAME]), row)
    return [
        row,
        error_of(
            lambda: insert_explicit_nulls(_SCHEMA, {}),
            "Field id is not found in the row_dict, but is not nullable",
        ),
    ]


def scalars_are_encoded(place: Place) -> Any:
    cases = [
        (np.int32, T.IntegerType(), np.int64(7)),
        (np.int32, T.IntegerType(), 3.9),
        (np.float32, T.FloatType(), np.float32(0.5)),
        (np.float64, T.DoubleType(), 1),
        (np.bool_, T.BooleanType(), np.bool_(True)),
        (np.str_, T.StringType(), np.str_("a")),
        (Decimal, T.DecimalType(10, 2), Decimal("1.50")),
    ]
    return [
        ScalarCodec(spark).encode(UnischemaField("f", numpy, (), None, False), value)
        for numpy, spark, value in cases
    ]


def codecs_describe_themselves(place: Place) -> Any:
    codecs = [
        ScalarCodec(T.LongType()),
        NdarrayCodec(),
        CompressedNdarrayCodec(),
        CompressedImageCodec("png"),
        CompressedImageCodec("jpeg", 90),
    ]
    return [
        [str(codec), codec.spark_dtype().simpleString(), isinstance(codec, DataframeColumnCodec)]
        for codec in codecs
    ]


def keys_of_the_metadata(place: Place) -> Any:
    return [bytes(key) for key in (UNISCHEMA_KEY, ROW_GROUPS_PER_FILE_KEY, ROWGROUPS_INDEX_KEY)]


def the_schema_of_a_dataset(place: Place) -> Any:
    schema = get_schema_from_dataset_url(place.dataset("codecs"))
    return [schema._name, [_plain(field) for field in schema.fields.values()]]
