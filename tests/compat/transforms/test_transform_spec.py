"""`TransformSpec`: its attributes, and which columns it leaves."""

from typing import Any

import numpy as np
import pytest

from mdstorm.codecs import NdarrayCodec
from mdstorm.transform import TransformSpec, edit_field, transform_schema
from mdstorm.unischema import Unischema, UnischemaField

X, Y = edit_field("x", np.int32, ()), edit_field("y", np.int32, ())


@pytest.mark.parametrize(
    ("spec", "columns"),
    [
        ({}, ("a", "b", "c")),
        ({"removed_fields": ["b"]}, ("a", "c")),
        ({"removed_fields": ["b", "unknown"]}, ("a", "c")),
        ({"selected_fields": ["c", "a"]}, ("c", "a")),
        ({"selected_fields": ["c", "unknown"]}, ("c",)),
        ({"selected_fields": []}, ()),
        ({"edit_fields": [X]}, ("a", "b", "c", "x")),
        ({"edit_fields": [edit_field("a", np.int32, ()), X]}, ("b", "c", "a", "x")),
        ({"edit_fields": [Y, X, Y]}, ("a", "b", "c", "y", "x")),
        ({"edit_fields": [X], "removed_fields": ["a"]}, ("b", "c", "x")),
        ({"edit_fields": [X], "selected_fields": ["x", "b"]}, ("x", "b")),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:.*specified some field names")
def test_edited_columns_come_last(spec: dict[str, Any], columns: tuple[str, ...]) -> None:
    assert TransformSpec(**spec)._mdstorm_columns_of(["a", "b", "c"]) == columns
    assert tuple(transform_schema(SCHEMA, TransformSpec(**spec)).fields) == columns


SCHEMA = Unischema(
    "S",
    [
        UnischemaField("a", np.int64, (), NdarrayCodec()),
        UnischemaField("b", np.str_, (), None, True),
        UnischemaField("c", np.float32, (2,), NdarrayCodec()),
    ],
)


def test_edited_fields_may_be_those_of_a_schema() -> None:
    field = UnischemaField("x", np.float32, (2,), NdarrayCodec(), True)
    spec = TransformSpec(edit_fields=[field])
    assert spec._mdstorm_columns_of(["a"]) == ("a", "x")
    assert tuple(transform_schema(SCHEMA, spec).x) == ("x", np.float32, (2,), None, True)


def test_edited_fields_may_have_a_codec_as_petastorm_takes_them() -> None:
    spec = TransformSpec(edit_fields=[("c", np.int64, (None, 1), NdarrayCodec(), False)])
    assert tuple(transform_schema(SCHEMA, spec).c) == ("c", np.int64, (None, 1), None, False)
