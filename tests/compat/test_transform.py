"""`TransformSpec`: its attributes, and which columns it leaves."""

from typing import Any

import numpy as np
import pytest

from mdstorm.errors import InvalidArgumentError
from mdstorm.transform import TransformSpec, edit_field


def test_attributes_are_those_of_petastorm() -> None:
    spec = TransformSpec()
    assert (spec.func, spec.edit_fields, spec.removed_fields) == (None, [], [])
    assert spec.selected_fields is None
    full = TransformSpec(print, [("x", np.int32, (), False)], ("a",))
    assert (full.func, full.edit_fields, full.removed_fields) == (
        print,
        [("x", np.int32, (), False)],
        ["a"],
    )
    assert TransformSpec(selected_fields=("b",)).selected_fields == ["b"]


@pytest.mark.parametrize("empty", [[], ["x"]])
def test_columns_are_removed_or_selected_and_not_both(empty: list[str]) -> None:
    with pytest.raises(InvalidArgumentError, match="only specify one of removed_fields and") as e:
        TransformSpec(removed_fields=[], selected_fields=empty)
    assert isinstance(e.value, ValueError)


def test_edit_field_is_a_tuple_with_a_default() -> None:
    assert edit_field("x", np.int32, (3,)) == ("x", np.int32, (3,), False)
    assert edit_field("x", np.int32, (), nullable=True) == ("x", np.int32, (), True)


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
def test_edited_columns_come_last(spec: dict[str, Any], columns: tuple[str, ...]) -> None:
    assert TransformSpec(**spec).columns_of(["a", "b", "c"]) == columns
