"""What ``fill_nulls`` and ``null_masks`` refuse."""

from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from tests.mds_backend.small_datasets import array_of, plan

from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.format.values.arrow_types import SparkType
from mdstorm_backend.loaders.nulls import NullPolicy


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        pytest.param("long", None, id="null"),
        pytest.param("long", -1.5, id="fraction-for-integer"),
        pytest.param("boolean", None, id="null-for-boolean"),
        pytest.param("byte", 300, id="too-large"),
        pytest.param("long", 2**70, id="far-too-large"),
        pytest.param("long", "x", id="text-for-integer"),
        pytest.param("boolean", 2, id="number-for-boolean"),
        pytest.param("string", 3, id="number-for-text"),
        pytest.param(array_of("integer"), 0.5, id="fraction-for-elements"),
        pytest.param("long", np.float32(1.5), id="fraction-of-numpy"),
        pytest.param("long", Decimal("1.5"), id="fraction-as-decimal"),
        pytest.param(array_of("integer"), [1, 2], id="array-for-elements"),
        pytest.param(array_of("integer"), np.array([1, 2]), id="array-of-numpy-for-elements"),
        pytest.param("float", 1e300, id="overflow-of-float"),
        pytest.param("date", datetime(2020, 1, 1, 5), id="hour-for-date"),
        pytest.param("date", np.datetime64("2020-01-01T05"), id="hour-of-numpy-for-date"),
        pytest.param("timestamp", 5.5, id="fraction-for-time"),
        pytest.param("timestamp", np.datetime64(1, "ns"), id="nanosecond-for-time"),
        pytest.param("timestamp", np.datetime64("NaT"), id="no-time"),
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
        pytest.param("long", np.float32(2), id="whole-float-of-numpy"),
        pytest.param("float", 0.1, id="digits-that-a-float-rounds"),
        pytest.param("float", float("inf"), id="infinity"),
        pytest.param("date", datetime(2020, 1, 1), id="midnight-for-date"),
        pytest.param("timestamp", datetime(2020, 1, 1, 5), id="time"),
        pytest.param("timestamp", np.datetime64("2020-01-01T05"), id="time-of-numpy"),
        pytest.param("date", np.datetime64("2020-01-01"), id="date-of-numpy"),
        pytest.param("decimal(3,2)", 1, id="integer-for-decimal"),
    ],
)
def test_a_fill_that_fits_is_taken(type_: SparkType, value: Any) -> None:
    assert NullPolicy(plan({"q": type_}), fill={"q": value}).fill == {"q": value}


@pytest.mark.parametrize(
    ("masks", "message"), [(["n"], "replace one that exists"), (["m", "m"], "twice")]
)
def test_a_mask_is_named_once_and_never_replaces_a_column(masks: list[str], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        NullPolicy(plan({"n": "long", "n_is_null": "long", "m": "long"}), masks=masks)
