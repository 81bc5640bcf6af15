"""`Unischema`, its fields and codecs, without a dataset."""

from __future__ import annotations

import pickle
from collections import namedtuple
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
    PetastormMetadataError,
    get_schema_from_dataset_url,
)
from petastorm.etl.rowgroup_indexing import ROWGROUPS_INDEX_KEY
from petastorm.generator import generate_datapoint
from petastorm.unischema import (
    Unischema,
    UnischemaField,
    dict_to_spark_row,
    insert_explicit_nulls,
    match_unischema_fields,
)
from petastorm.utils import DecodeFieldError, decode_row
from pyspark.sql import types as T  # noqa: N812
from tests.conformance.describing import error_of, warnings_of
from tests.conformance.place import Place

_ID = UnischemaField("id", np.int64, (), ScalarCodec(T.LongType()), False)
_NAME = UnischemaField("name", np.str_, (), ScalarCodec(T.StringType()), True)
_MATRIX = UnischemaField("matrix", np.float32, (2, None), NdarrayCodec(), False)
_IMAGE = UnischemaField("image", np.uint8, (None, None, 3), CompressedImageCodec("png"), True)
_SCHEMA = Unischema("Sch", [_ID, _NAME, _MATRIX, _IMAGE])


def _plain(field: Any) -> Any:
    return [field.name, field.numpy_dtype, list(field.shape), str(field.codec), field.nullable]


def fields_are_tuples(place: Place) -> Any:
    return [_ID._fields, _plain(_ID), _plain(UnischemaField("x", np.int8, ()))]


def fields_are_equal_whatever_their_codec(place: Place) -> Any:
    other = UnischemaField("id", np.int64, (), None, False)
    larger = UnischemaField("id", np.int64, (3,), None, False)
    return [other == _ID, hash(other) == hash(_ID), larger == _ID, len({other, _ID, larger})]


def fields_of_a_schema(place: Place) -> Any:
    return [list(_SCHEMA.fields), _SCHEMA._name, _SCHEMA.id is _ID, _SCHEMA.fields["id"] is _ID]


def schemas_are_written_in_lines(place: Place) -> Any:
    return str(Unischema("Sch", [_ID, _NAME, _MATRIX])).replace("str_", "str")


def views_by_field(place: Place) -> Any:
    view = _SCHEMA.create_schema_view([_MATRIX, _SCHEMA.id])
    return [view._name, list(view.fields)]


def views_by_pattern(place: Place) -> Any:
    view = _SCHEMA.create_schema_view(["m.*", "id"])
    return [view._name, sorted(view.fields)]


def patterns_match_whole_names(place: Place) -> Any:
    patterns = [["id"], ["i.*"], ["i"], [".*a.*"], []]
    return [
        sorted(field.name for field in match_unischema_fields(_SCHEMA, found)) for found in patterns
    ]


def names_that_the_schema_needs_itself(place: Place) -> Any:
    field = UnischemaField("fields", np.int64, (), None, False)
    return warnings_of(lambda: Unischema("Sch", [field]), "Can not create dynamic property")


def named_tuples_of_a_schema(place: Place) -> Any:
    schema = Unischema("Sch", [_ID, _NAME])
    row = schema.make_namedtuple(id=1, name="a")
    return [
        row,
        schema.make_namedtuple_tf(2, "b"),
        type(row) is type(schema.make_namedtuple_tf(1, 2)),
    ]


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


def rows_for_spark(place: Place) -> Any:
    schema = Unischema("Sch", [_NAME, _ID, UnischemaField("flag", np.bool_, (), None, True)])
    row = dict_to_spark_row(schema, {"id": np.int32(5), "name": None})
    return [type(row).__name__, row.asDict()]


def rows_with_foreign_keys(place: Place) -> Any:
    schema = Unischema("Sch", [_ID])
    return error_of(
        lambda: dict_to_spark_row(schema, {"id": 1, "x": 2}), "do not match schema fields"
    )


def rows_with_missing_values(place: Place) -> Any:
    schema = Unischema("Sch", [_ID])
    return [
        error_of(lambda: dict_to_spark_row(schema, {"id": None}), 'is not "nullable"'),
        error_of(lambda: dict_to_spark_row(schema, {})),
    ]


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


def scalars_that_are_none(place: Place) -> Any:
    codec = ScalarCodec(T.IntegerType())
    field = UnischemaField("f", np.int32, (), codec, False)
    text = UnischemaField("s", np.str_, (), ScalarCodec(T.StringType()), False)
    return [
        error_of(
            lambda: codec.encode(field, np.zeros(2, np.int32)),
            "Expected a scalar as a value for field",
        ),
        error_of(
            lambda: ScalarCodec(T.StringType()).encode(text, 5),
            "Expected a string value for field",
        ),
    ]


def arrays_are_encoded_as_npy(place: Place) -> Any:
    field = UnischemaField("f", np.int16, (2,), NdarrayCodec(), False)
    encoded = bytes(NdarrayCodec().encode(field, np.array([1, 2], np.int16)))
    return [encoded[:8], encoded[-4:], len(encoded) % 64]


def arrays_survive_their_codecs(place: Place) -> Any:
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = []
    for codec in (NdarrayCodec(), CompressedNdarrayCodec()):
        field = UnischemaField("f", np.float32, (2, None), codec, False)
        found.append(codec.decode(field, codec.encode(field, value)))
    return found


def arrays_of_a_wrong_kind(place: Place) -> Any:
    found = []
    for codec in (NdarrayCodec(), CompressedNdarrayCodec()):
        field = UnischemaField("f", np.float32, (2, 3), codec, False)
        wrong = [
            (np.zeros((2, 3), np.float64), "Unexpected type of"),
            (np.zeros((3, 2), np.float32), "Unexpected dimensions of"),
            (np.zeros(6, np.float32), "Unexpected dimensions of"),
        ]
        found += [error_of(lambda: codec.encode(field, value), says) for value, says in wrong]  # noqa: B023
    return found


def images_survive_png(place: Place) -> Any:
    value = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    grey = np.arange(6, dtype=np.uint8).reshape(3, 2)
    found = []
    for image in (value, grey):
        field = UnischemaField("f", np.uint8, image.shape, CompressedImageCodec("png"), False)
        encoded = field.codec.encode(field, image)
        found.append([bytes(encoded)[:4], field.codec.decode(field, encoded)])
    return found


def images_are_lossy_in_jpeg(place: Place) -> Any:
    codec = CompressedImageCodec("jpeg", quality=95)
    field = UnischemaField("f", np.uint8, (8, 8, 3), codec, False)
    image = np.full((8, 8, 3), 100, np.uint8)
    encoded = codec.encode(field, image)
    decoded = codec.decode(field, encoded)
    distance = int(np.abs(decoded.astype(int) - image).max())
    return [bytes(encoded)[:2], decoded.shape, str(decoded.dtype), distance <= 2]


def images_of_other_dimensions(place: Place) -> Any:
    codec = CompressedImageCodec("png")
    field = UnischemaField("f", np.uint8, (2, 2, 4), codec, False)
    return error_of(
        lambda: codec.encode(field, np.zeros((2, 2, 4), np.uint8)), "Unexpected image dimensions"
    )


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


def rows_are_decoded(place: Place) -> Any:
    schema = Unischema("Sch", [_ID, _NAME, _MATRIX])
    matrix = _MATRIX.codec.encode(_MATRIX, np.ones((2, 1), np.float32))
    return decode_row({"id": 5, "name": None, "matrix": matrix, "other": 1}, schema)


def cells_that_cannot_be_decoded(place: Place) -> Any:
    schema = Unischema("Sch", [_MATRIX])
    return [
        error_of(
            lambda: decode_row({"matrix": b"no array"}, schema), 'Decoding field "matrix" failed'
        ),
        issubclass(DecodeFieldError, RuntimeError),
    ]


def generated_rows_fit_the_schema(place: Place) -> Any:
    row = generate_datapoint(Unischema("Sch", [_ID, _MATRIX]))
    return [sorted(row), str(row["matrix"].dtype), row["matrix"].ndim, row["matrix"].shape[0]]


def keys_of_the_metadata(place: Place) -> Any:
    return [bytes(key) for key in (UNISCHEMA_KEY, ROW_GROUPS_PER_FILE_KEY, ROWGROUPS_INDEX_KEY)]


def the_schema_of_a_dataset(place: Place) -> Any:
    schema = get_schema_from_dataset_url(place.dataset("codecs"))
    return [schema._name, [_plain(field) for field in schema.fields.values()]]


def the_schema_of_plain_parquet(place: Place) -> Any:
    url = place.numbers()
    return [
        error_of(lambda: get_schema_from_dataset_url(url)),
        issubclass(PetastormMetadataError, Exception),
    ]


def a_row_type_of_many_names(place: Place) -> Any:
    names = [f"f{i}" for i in range(300)]
    fields = [UnischemaField(name, np.int64, (), None, False) for name in names]
    row = Unischema("Wide", fields).make_namedtuple(**dict.fromkeys(names, 1))
    return [len(row), row.f299, type(row).__name__, isinstance(row, tuple), namedtuple is not None]
