"""Computed floats that differ by rounding are equal; elements that move within rows are not."""

import datetime
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contract.compare.made_up import compare_loaders, loader_of

Change = Callable[[Any], Any]
_SEED = 7
_COMPUTED = {"transform_spec": "TransformSpec"}
_MOVED = "column x: values: almost the same numbers, at different positions in their rows"
_SHIFTS = np.stack([np.roll(np.arange(192.0), shift) for shift in range(192)])


def images(*shape: int) -> Any:
    return np.random.default_rng(_SEED).random(shape)


def signed(values: Any) -> Any:
    return np.concatenate([values - 0.5, 0.5 - values])


def with_holes(values: Any) -> Any:
    values[:, ::3, 1] = np.nan
    return values


#: Rows of 8 x 8 pixels. In some of them, all positions have the same mean.
IMAGES = {
    "random": images(20, 8, 8, 3),
    "one row": images(1, 8, 8, 3),
    "bytes": (np.arange(20 * 192) % 256 / 255).reshape(20, 8, 8, 3),
    "shifts of one row": _SHIFTS.reshape(-1, 8, 8, 3),
    "both signs": signed(images(20, 8, 8, 3)),
    "far from zero": images(20, 8, 8, 3) + 1000,
    "tiny": images(20, 8, 8, 3) * 1e-30,
    "nulls": with_holes(images(20, 8, 8, 3)),
    "larger": images(50, 64, 64, 3),
}
MOVES: dict[str, Change] = {
    "BGR": lambda rows: rows[..., ::-1],
    "mirrored": lambda rows: rows[:, :, ::-1],
    "upside down": lambda rows: rows[:, ::-1],
    "transposed": lambda rows: rows.transpose(0, 2, 1, 3),
    "turned": lambda rows: np.rot90(rows, axes=(1, 2)),
    "reshaped": lambda rows: np.moveaxis(rows, 3, 1).reshape(rows.shape),
    "every other row mirrored": lambda rows: np.stack(
        [row if at % 2 else row[:, ::-1] for at, row in enumerate(rows)]
    ),
}


def to_float32(values: Any) -> Any:
    return values.astype(np.float32)


def to_lists(values: Any) -> Any:
    return values.tolist()


def to_ragged(values: Any) -> Any:
    """Return arrays of which every other one appears twice in a row."""
    return [np.concatenate([row] * (1 + at % 2)) for at, row in enumerate(values)]


def rounded(values: Any, towards: float = np.inf) -> Any:
    """Return the next representable numbers."""
    return np.nextafter(values, np.asarray(towards, values.dtype))


@pytest.mark.matrix
@pytest.mark.parametrize("rows", IMAGES)
@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_elements_moved_within_rows_are_different(
    rows: str, move: str, dtype: Any, tmp_path: Path
) -> None:
    values = IMAGES[rows].astype(dtype)
    moved = rounded(MOVES[move](values))
    code, output = compare_loaders(
        tmp_path, loader_of(values, **_COMPUTED), loader_of(moved, **_COMPUTED)
    )
    assert (code, _MOVED in output) == (1, True), output


@pytest.mark.parametrize("form", [to_lists, to_ragged])
@pytest.mark.parametrize("move", MOVES)
def test_elements_moved_within_lists_or_ragged_rows_are_different(
    form: Change, move: str, tmp_path: Path
) -> None:
    values = IMAGES["random"][:4]
    old, new = (loader_of(form(each), **_COMPUTED) for each in (values, MOVES[move](values)))
    code, output = compare_loaders(tmp_path, old, new)
    assert (code, _MOVED in output) == (1, True), output


def relative(values: Any) -> Any:
    """Return values with a random relative error of one unit in the last place."""
    errors = np.random.default_rng(_SEED).uniform(-1, 1, values.shape)
    return (values * (1 + errors * np.finfo(values.dtype).eps)).astype(values.dtype)


ROUNDINGS: dict[str, Change] = {
    "up": rounded,
    "towards zero": lambda values: rounded(values, 0),
    "at random": relative,
}


@pytest.mark.matrix
@pytest.mark.parametrize("rows", IMAGES)
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", [np.asarray, to_ragged])
def test_rounded_elements_in_any_order_of_rows_are_equal(
    rows: str, rounding: str, dtype: Any, form: Change, tmp_path: Path
) -> None:
    values = IMAGES[rows][:30].astype(dtype)
    old, new = (form(each) for each in (values, ROUNDINGS[rounding](values)))
    code, output = compare_loaders(
        tmp_path, loader_of(old, **_COMPUTED), loader_of(new[::-1], **_COMPUTED)
    )
    assert (code, "x: computed numbers differ by rounding" in output) == (0, True), output


def test_float32_and_float64_of_the_same_numbers_differ_in_dtype_alone(tmp_path: Path) -> None:
    values = IMAGES["random"]
    old, new = (loader_of(each, **_COMPUTED) for each in (values, to_float32(values)))
    code, output = compare_loaders(tmp_path, old, new)
    assert (code, "dtype: float64, then float32" in output) == (1, True), output
    assert "x: values" not in output


@given(
    st.integers(2, 12).flatmap(lambda width: st.permutations(range(width))),
    st.integers(1, 30),
    st.integers(0, 99),
    st.sampled_from([np.float32, np.float64]),
)
def test_every_permutation_of_random_rows_is_different(
    order: list[int], rows: int, seed: int, dtype: Any
) -> None:
    values = np.random.default_rng(seed).random((rows, len(order))).astype(dtype)
    old, new = values, rounded(values[:, order])
    with TemporaryDirectory() as folder:
        code, output = compare_loaders(
            Path(folder), loader_of(old, **_COMPUTED), loader_of(new, **_COMPUTED)
        )
    assert code == (order != sorted(order)), output


def without_projections(loader: dict[str, Any]) -> dict[str, Any]:
    """Return a loader as recorded by a recorder that did not write projections."""
    del loader["data"]["columns"]["x"]["projected"]
    return loader


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize(
    ("changed", "says", "code"),
    [
        (lambda values: values, "equal", 0),
        (rounded, "is from an older recorder", 2),
        (lambda values: values[..., ::-1], "is from an older recorder", 2),
        (lambda values: values * 1.01, "column x: values: ", 1),
    ],
)
def test_recording_without_projections_is_not_comparable_where_they_would_decide(
    side: int, changed: Change, says: str, code: int, tmp_path: Path
) -> None:
    values = IMAGES["random"]
    loaders = [loader_of(each, **_COMPUTED) for each in (values, changed(values))]
    without_projections(loaders[side])
    found, output = compare_loaders(tmp_path, *loaders)
    assert (found, says in output) == (code, True), output
    if code == 2:
        assert f"{('the recording', 'this run')[side]} is from" in output
        assert "mdstorm compare --recorder" in output


def test_scalars_are_comparable_without_projections(tmp_path: Path) -> None:
    values = images(50)
    old = without_projections(loader_of(values, **_COMPUTED))
    code, output = compare_loaders(tmp_path, old, loader_of(rounded(values), **_COMPUTED))
    assert (code, "differ by rounding" in output) == (0, True), output


_DAYS = np.array(["2024-01-01", "2024-02-01"], "datetime64[D]")
_DATES = [datetime.date(2024, 1, 1), datetime.date(2024, 2, 1)]
_NOON = datetime.datetime(2024, 1, 1, 12)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (_DAYS, _DAYS + 1, "2024-01-01 … 2024-02-01, then 2024-01-02 … 2024-02-02"),
        (
            _DAYS.astype("datetime64[us]"),
            _DAYS.astype("datetime64[us]") + 3_600_000_000,
            "2024-01-01 … 2024-02-01, then 2024-01-01 01:00:00 … 2024-02-01 01:00:00",
        ),
        (_DATES, _DATES[:1] * 2, "2024-01-01 … 2024-02-01, then 2024-01-01 … 2024-01-01"),
        ([_NOON], [_NOON.replace(hour=13)], "12:00:00, then 2024-01-01 13:00:00 …"),
        (
            np.array([1, 2], "timedelta64[h]"),
            np.array([1, 3], "timedelta64[h]"),
            "1:00:00 … 2:00:00, then 1:00:00 … 3:00:00",
        ),
        ([Decimal("1.50")], [Decimal("2.50")], "1.5 … 1.5, sum 1.5, then 2.5 … 2.5, sum 2.5"),
        ([[Decimal(1)]], [[Decimal(2)]], "1 … 1, sum 1, then 2 … 2, sum 2"),
        ([Decimal("NaN")], [Decimal(2)], "different values"),
        ([Decimal("10.00")], [Decimal("10.000")], "different values"),
        ([16777216], [16777217], "16777216 … 16777216, sum 16777216, then 16777217 …"),
        ([0.1234567], [0.1234568], "0.1234567 … 0.1234567, sum 0.1234567, then 0.1234568 …"),
        ([0.0, 19.0], [0.0, 28.5], "0 … 19, sum 19, then 0 … 28.5, sum 28.5"),
        (["a"], ["b"], "different values"),
        ([[1, 2]], [[2, 1]], "different values"),
    ],
)
def test_different_values_are_printed_in_the_form_of_their_type(
    old: Any, new: Any, says: str, tmp_path: Path
) -> None:
    code, output = compare_loaders(tmp_path, loader_of(old), loader_of(new))
    assert (code, says in output) == (1, True), output


@pytest.mark.parametrize(
    ("new", "is_documented"),
    [
        (np.array([1.5], np.float32), False),
        (np.array([[1.5, 2.5]], np.float32), False),
        (np.array([1], np.int16), False),
        (["text"], False),
        (np.array([[[1.5], [2.5]]]), True),
        ([["a", "b"]], True),
        ([{"a": "b"}], True),
    ],
)
def test_new_column_is_documented_only_if_petastorm_leaves_out_its_type(
    new: Any, is_documented: bool, tmp_path: Path
) -> None:
    old, both = loader_of(np.array([1.5])), loader_of(np.array([1.5]))
    both["data"]["columns"]["y"] = loader_of(new)["data"]["columns"]["x"]
    _, output = compare_loaders(tmp_path, old, both)
    assert ("column y: columns: new" in output, "documented" in output) == (True, is_documented)
