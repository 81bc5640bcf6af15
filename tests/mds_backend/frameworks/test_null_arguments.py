"""What ``fill_nulls`` and ``null_masks`` refuse."""

from __future__ import annotations

from typing import Any

import pytest
from tests.mds_backend.datasets import array_of, plan

from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.frameworks.nulls import NullPolicy
from mdstorm_backend.spark_types import SparkType


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        pytest.param("long", None, id="null"),
        pytest.param("long", -1.5, id="fraction-for-integer"),
        pytest.param("boolean", None, id="null-for-boolean"),
        pytest.param("byte", 300, id="too-large"),
        pytest.param("string", 3, id="number-for-text"),
        pytest.param(array_of("integer"), 0.5, id="fraction-for-elements"),
    ],
)
def test_a_fill_that_the_column_cannot_hold_is_refused(type_: SparkType, value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"fill_nulls gives .* for column 'q'"):
        NullPolicy(plan({"q": type_}), fill={"q": value})


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        pytest.param("long", -1, id="integer"),
        pytest.param("long", 2.0, id="whole-float-for-integer"),
        pytest.param("double", -1, id="integer-for-float"),
        pytest.param("double", float("nan"), id="nan"),
        pytest.param("string", "", id="empty-text"),
    ],
)
def test_a_fill_that_fits_is_taken(type_: SparkType, value: Any) -> None:
    assert NullPolicy(plan({"q": type_}), fill={"q": value}).fill == {"q": value}


def test_a_mask_never_replaces_a_column() -> None:
    with pytest.raises(InvalidArgumentError, match="replace one that exists"):
        NullPolicy(plan({"n": "long", "n_is_null": "long"}), masks=["n"])


def test_a_mask_is_named_once() -> None:
    with pytest.raises(InvalidArgumentError, match="twice"):
        NullPolicy(plan({"n": "long"}), masks=["n", "n"])
