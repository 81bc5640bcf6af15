from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pytest

from mdstorm_backend.format.values.plain_arrow import plain_type, plain_values

CASES: list[tuple[pa.Array, pa.DataType]] = [
    (pa.array(["a", None], pa.large_string()), pa.string()),
    (pa.array([b"a", None], pa.large_binary()), pa.binary()),
    (pa.array([b"ab", None], pa.binary(2)), pa.binary()),
    (pa.array(["a", None, "a"]).dictionary_encode(), pa.string()),
    (pa.array([[1], None], pa.large_list(pa.int8())), pa.list_(pa.int8())),
    (pa.array([[1, 2], None], pa.list_(pa.int8(), 2)), pa.list_(pa.int8())),
    (pa.array([["a"], []], pa.list_(pa.large_string())), pa.list_(pa.string())),
    (pa.array([date(2024, 2, 29), None], pa.date64()), pa.date32()),
    (pa.array([datetime(2024, 1, 1), None], pa.timestamp("s")), pa.timestamp("us")),
    (
        pa.array([datetime(2024, 1, 1)], pa.timestamp("ms", tz="Europe/Berlin")),
        pa.timestamp("us", tz="UTC"),
    ),
    (pa.array([5, None], pa.duration("ms")), pa.duration("us")),
    (
        pa.array([{"a": "x"}, None], pa.struct([("a", pa.large_string())])),
        pa.struct([("a", pa.string())]),
    ),
]


@pytest.mark.parametrize(("values", "expected"), CASES, ids=lambda v: str(getattr(v, "type", "")))
def test_values_take_the_plain_form_of_their_type(values: pa.Array, expected: pa.DataType) -> None:
    assert plain_type(values.type) == expected
    found = plain_values(values)
    assert found.type == expected
    assert [_moment(v) for v in found.to_pylist()] == [_moment(v) for v in values.to_pylist()]


def _moment(value: Any) -> Any:
    return value.timestamp() if isinstance(value, datetime) and value.tzinfo else value


def test_a_tensor_is_a_list_of_its_numbers() -> None:
    if not hasattr(pa, "fixed_shape_tensor"):
        pytest.skip("this Arrow has no tensors")
    type_ = pa.fixed_shape_tensor(pa.int16(), [2, 2])
    values = pa.ExtensionArray.from_storage(
        type_, pa.array([[1, 2, 3, 4]], pa.list_(pa.int16(), 4))
    )
    assert plain_values(values).to_pylist() == [[1, 2, 3, 4]]
    assert plain_type(type_) == pa.list_(pa.int16())


def test_newer_forms_of_text_are_plain_as_well() -> None:
    if not hasattr(pa, "string_view"):
        pytest.skip("this Arrow has no views")
    values = pa.array(["a", None]).cast(pa.string_view())
    assert plain_values(values).equals(pa.array(["a", None]))


def test_what_would_be_lost_is_refused() -> None:
    with pytest.raises(ValueError, match="lose data"):
        plain_values(pa.array([1], pa.timestamp("ns")))
