"""Predicates give the same result whether they are evaluated on columns or on each row."""

import datetime as dt
import operator
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.compat.selection.parquet_files import batch_of, write

from mdstorm import predicates as by
from mdstorm._rows import cells
from mdstorm._selection import PredicateFilter, prune_by_predicate
from mdstorm.errors import InvalidArgumentError
from mdstorm_backend.format.values.batch import num_rows

BOTH = pytest.mark.parametrize("batched", [False, True], ids=["rows", "batches"])


def included(predicate: by.PredicateBase, table: pa.Table, batched: bool = False) -> list[int]:
    batch, schema = batch_of(table)
    mask = PredicateFilter(predicate, schema, batched).mask(batch)
    assert mask.dtype == np.bool_
    return np.flatnonzero(mask).tolist()


class Asking(by.PredicateBase):
    """A user-defined predicate that calls `function`."""

    def __init__(self, fields: list[str], function: Any) -> None:
        self.fields = fields
        self.function = function

    def get_fields(self) -> list[str]:
        return self.fields

    def do_include(self, values: Any) -> Any:
        return self.function(values)


SMALL = st.integers(-2, 3)
COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "i": (pa.int64(), SMALL),
    "u": (pa.uint8(), st.integers(0, 3)),
    "n": (pa.int32(), st.none() | SMALL),
    "f": (pa.float32(), st.sampled_from([0.5, 1.0, float("nan")])),
    "s": (pa.string(), st.none() | st.sampled_from(["a", "b", "1", ""])),
    "b": (pa.bool_(), st.none() | st.booleans()),
    "d": (pa.decimal128(4, 1), st.none() | SMALL.map(Decimal)),
    "t": (pa.timestamp("us"), SMALL.map(lambda day: dt.datetime(2020, 1, 4 + day))),
    "l": (pa.list_(pa.int64()), st.none() | st.lists(SMALL, max_size=3)),
    "m": (pa.list_(pa.int16(), 2), st.lists(SMALL, min_size=2, max_size=2)),
    "w": (pa.list_(pa.string()), st.none() | st.lists(st.sampled_from("ab"), max_size=2)),
}
SCALARS, ARRAYS = "iunfsbdt", "lmw"
VALUES = st.one_of(
    SMALL,
    st.sampled_from([1.0, 0.5, True, "a", "", "1", None, Decimal(1), dt.datetime(2020, 1, 5)]),
    st.sampled_from([2**70, 2**2000, 1e300, 0.1, float("nan"), float("inf")]),
)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    rows = draw(st.integers(1, 12))
    return pa.table(
        {
            name: pa.array(draw(st.lists(values, min_size=rows, max_size=rows)), type_)
            for name, (type_, values) in COLUMNS.items()
        }
    )


LEAVES = st.one_of(
    st.builds(by.in_set, st.lists(VALUES, max_size=3), st.sampled_from(SCALARS)),
    st.builds(by.in_set, st.lists(SMALL | st.booleans(), max_size=3), st.sampled_from("iuf")),
    st.builds(by.in_intersection, st.lists(VALUES, max_size=3), st.sampled_from(ARRAYS)),
    st.builds(by.in_intersection, st.lists(SMALL, max_size=3), st.just("m")),
    st.builds(
        by.in_pseudorandom_split, st.just([0.5, 0.4]), st.integers(0, 1), st.sampled_from(SCALARS)
    ),
)


def not_all(found: list[Any]) -> bool:
    return bool(found[0]) or not found[-1]


PREDICATES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(by.in_negate, inner),
        st.builds(
            by.in_reduce,
            st.lists(inner, min_size=1, max_size=3),
            st.sampled_from([all, any, not_all]),
        ),
    ),
    max_leaves=4,
)


@given(tables(), PREDICATES)
def test_predicate_on_columns_equals_predicate_on_rows(
    table: pa.Table, predicate: by.PredicateBase
) -> None:
    batch, schema = batch_of(table)
    columns = {name: cells(batch[name], schema[name]) for name in schema.names}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    expected = [bool(predicate.do_include(row)) for row in rows]
    for batched in (False, True):
        assert PredicateFilter(predicate, schema, batched).mask(batch).tolist() == expected


IDS = pa.table(
    {
        "id": pa.array(range(6), pa.int64()),
        "name": ["a", None, "b", "ab", "", "a"],
        "x": [0.5, None, 2.5, float("nan"), 4.0, 5.0],
        "pair": [[1, 2], [3], [], [5, 6], None, [1]],
    }
)


def test_null_arrays_contain_no_wanted_values() -> None:
    _, schema = batch_of(pa.table({"pair": [[1], [2], [1]]}))
    offsets = pa.array([0, 1, 2, 3], mask=np.array([True, False, False, False]))
    lists = pa.ListArray.from_arrays(offsets, pa.array([1, 2, 1]))
    mask = PredicateFilter(by.in_intersection([1], "pair"), schema, False).mask({"pair": lists})
    assert mask.tolist() == [False, False, True]


def test_numbers_that_the_column_type_cannot_represent_match_nothing() -> None:
    table = pa.table({"x": pa.array([0.1, 0.5], pa.float32())})
    assert included(by.in_set([0.1, 0.5, 2**2000], "x"), table) == [1]


@pytest.mark.parametrize("type_", [pa.int8(), pa.uint8(), pa.int32(), pa.uint32(), pa.int64()])
def test_ends_of_an_integer_type_match_and_values_beyond_match_nothing(type_: pa.DataType) -> None:
    limits = np.iinfo(type_.to_pandas_dtype())
    table = pa.table({"x": pa.array([limits.max, 1, limits.min], type_)})
    assert included(by.in_set([int(limits.max), 2**70], "x"), table) == [0]
    assert included(by.in_set([int(limits.min), -(2**70)], "x"), table) == [2]
    assert included(by.in_set([int(limits.max) + 1, int(limits.min) - 1, 0.5], "x"), table) == []


@BOTH
def test_filtered_batch_keeps_row_order_and_column_types(batched: bool) -> None:
    batch, schema = batch_of(IDS)
    filter_ = PredicateFilter(by.in_set([5, 1], "id"), schema, batched)
    kept = filter_(batch)
    assert tuple(kept) == filter_.columns == schema.names
    assert kept["id"].dtype == np.int64
    assert kept["id"].tolist() == [1, 5]
    assert kept["name"].to_pylist() == [None, "a"]
    assert PredicateFilter(by.in_set(range(6), "id"), schema, batched)(batch) is batch
    nothing = PredicateFilter(by.in_set([], "id"), schema, batched)(batch)
    assert {name: num_rows({name: values}) for name, values in nothing.items()} == dict.fromkeys(
        schema.names, 0
    )
    assert filter_(nothing)["id"].dtype == np.int64


def test_function_called_for_each_row_receives_row_reader_values() -> None:
    seen: list[Any] = []
    in_row = by.in_lambda(["id", "name", "pair"], lambda *row: seen.append(row))
    assert included(in_row, IDS) == []
    assert [type(value) for value in seen[0]] == [np.int64, np.str_, np.ndarray]
    assert seen[4][1:] == ("", None)


def test_in_reduce_passes_predicate_results_to_function() -> None:
    number = by.in_lambda(["id"], lambda i: i)
    assert included(by.in_reduce([number, number], lambda found: sum(found) == 8), IDS) == [4]


class TestFunctionsOfSeries:
    """In the batch reader, a function receives Series. If it fails, it is called for each row."""

    def test_function_on_series_returns_a_series(self) -> None:
        seen: list[Any] = []

        def starts_with_a(name: Any, i: Any) -> Any:
            seen.append((name, i))
            return name.str.startswith("a") & (i > 0)

        assert included(by.in_lambda(["name", "id"], starts_with_a), IDS, batched=True) == [3, 5]
        assert [type(value) for value in seen[0]] == [pd.Series] * 2
        assert (len(seen), seen[0][1].dtype) == (1, np.int64)

    @pytest.mark.parametrize(
        "function",
        [
            lambda i: (i > 3).to_numpy(),
            lambda i: [value > 3 for value in i],
            lambda i: (i > 3).astype("boolean").where(i != 0),
            lambda i: (i > 3).astype(object).where(i != 0),
            lambda i: (i > 3).sort_values(ascending=False),
            lambda i: math_greater(i, 3),
            lambda i: bool(i > 3),
            lambda i: int(i) in {4, 5},
            lambda i: "yes" if int(i) > 3 else "",
        ],
        ids=["array", "list", "nullable", "object", "sorted", "type", "truth", "int", "text"],
    )
    def test_function_may_return_arrays_lists_and_series(self, function: Any) -> None:
        assert included(by.in_lambda(["id"], function), IDS, batched=True) == [4, 5]

    @BOTH
    def test_user_predicate_selects_rows(self, batched: bool) -> None:
        even = Asking(["id"], lambda values: values["id"] % 2 == 0)
        known = Asking(["id"], lambda values: {0: True, 3: True}.get(values["id"], False))
        assert included(even, IDS, batched) == [0, 2, 4]
        assert included(known, IDS, batched) == [0, 3]
        assert included(by.in_negate(known), IDS, batched) == [1, 2, 4, 5]

    def test_user_predicate_receives_a_frame_with_its_fields(self) -> None:
        seen: list[Any] = []

        def long(values: Any) -> Any:
            seen.append(values)
            values["id"] *= 2
            return values.eval("id > 6") & (values.pair.str.len() > 0)

        batch, schema = batch_of(IDS)
        filter_ = PredicateFilter(Asking(["pair", "id"], long), schema, True)
        assert filter_(batch)["id"].tolist() == [5]
        frame = seen[0]
        assert (type(frame), list(frame.columns), len(seen)) == (pd.DataFrame, ["id", "pair"], 1)
        assert frame.index.equals(pd.RangeIndex(6))
        # The predicate's changes to its frame do not affect the batch.
        assert batch["id"].tolist() == [0, 1, 2, 3, 4, 5]

    def test_nested_user_predicate_receives_a_frame(self) -> None:
        even = Asking(["id"], lambda frame: frame.id.isin([0, 2, 4]))
        named = by.in_set(["a", "b"], "name")
        for combined, expected in [
            (by.in_negate(even), [1, 3, 5]),
            (by.in_reduce([even, named], all), [0, 2]),
            (by.in_reduce([even, named], lambda found: found[0] & ~found[1]), [4]),
        ]:
            assert included(combined, IDS, batched=True) == expected

    def test_non_boolean_result_raises_error(self) -> None:
        with pytest.raises(TypeError) as raised:
            included(Asking(["id"], lambda values: values[["id"]] > 3), IDS, batched=True)
        assert "DataFrame with shape (6, 1)" in str(raised.value.__cause__)

    def test_predicate_subclass_uses_its_own_do_include(self) -> None:
        class Beyond(by.in_set):
            def do_include(self, values: Any) -> bool:
                return bool(values["id"] > max(self._inclusion_values))

        for batched in (False, True):
            assert included(Beyond([1, 3], "id"), IDS, batched) == [4, 5]

    def test_in_reduce_function_receives_series(self) -> None:
        small, named = by.in_set([0, 1, 2], "id"), by.in_set(["a"], "name")
        for function, expected in [
            (lambda found: found[0] & found[1], [0]),
            (lambda found: found[0] | ~found[1], [0, 1, 2, 3, 4]),
            (lambda found: found[0] or found[1], [0, 1, 2, 5]),
            (lambda found: found[0] is False, [3, 4, 5]),
            (operator.itemgetter(1), [0, 5]),
        ]:
            assert included(by.in_reduce([small, named], function), IDS, batched=True) == expected

    def test_error_for_a_row_has_error_for_series_as_cause(self) -> None:
        with pytest.raises(KeyError) as raised:
            included(by.in_lambda(["id"], lambda i: {}[int(i)]), IDS, batched=True)
        assert isinstance(raised.value.__cause__, TypeError)


def math_greater(value: Any, than: int) -> bool:
    if isinstance(value, pd.Series):
        raise TypeError("no scalar")
    return bool(value > than)


def test_predicate_on_unread_columns_raises_error() -> None:
    schema = batch_of(IDS)[1].select(["id", "name"])
    with pytest.raises(ValueError, match=r"\(pair, z\) are not valid schema names: \(id, name\)"):
        PredicateFilter(by.in_lambda(["z", "id", "pair"], print), schema, False)
    with pytest.raises(ValueError, match="At least one field name must be returned"):
        PredicateFilter(by.in_lambda([], lambda: True), schema, False)


def test_predicate_filter_can_be_pickled() -> None:
    batch, schema = batch_of(IDS)
    again = pickle.loads(pickle.dumps(PredicateFilter(by.in_set([2], "id"), schema, True)))  # noqa: S301
    assert again(batch)["id"].tolist() == [2]


def test_predicates_on_partitions_skip_row_groups(tmp_path: Any) -> None:
    table = pa.table({"year": [1, 1, 2, 3], "name": ["a", "b", "c", "d"], "x": range(4)})
    dataset = write(tmp_path, table, by=["year", "name"])
    for predicate, years in [
        (by.in_set([1, 3], "year"), [1, 1, 3]),
        (by.in_lambda(["year", "name"], lambda y, n: (y == 1) & (n == "b")), [1]),
        (by.in_lambda(["year"], lambda y: int(y) == 2), [2]),
        (by.in_set([7], "year"), []),
    ]:
        for batched in (False, True):
            left, done = prune_by_predicate(
                dataset, PredicateFilter(predicate, dataset.schema, batched)
            )
            assert done
            assert [group.partition["year"] for group in left.row_groups] == years
    mixed = PredicateFilter(by.in_lambda(["year", "x"], lambda y, x: y == x), dataset.schema, False)
    assert prune_by_predicate(dataset, mixed) == (dataset, False)


def test_numpy_dates_match_a_set_of_dates() -> None:
    is_included = by.in_set([dt.date(2020, 1, 2)], "a").do_include
    assert is_included({"a": np.datetime64("2020-01-02")})
    assert not is_included({"a": np.datetime64("2020-01-03")})


def test_in_intersection_includes_arrays_with_a_wanted_value() -> None:
    predicate = by.in_intersection([1, 2], "a")
    assert predicate.do_include({"a": np.array([[3], [2]])})
    assert predicate.do_include({"a": [1]})
    assert not predicate.do_include({"a": np.array([3])})
    assert not predicate.do_include({"a": np.array([], np.int64)})
    assert not predicate.do_include({"a": None})
    assert by.in_intersection([[1], [2]], "a").do_include({"a": [[2]]})
    with pytest.raises(ValueError, match=r"Predicate field should have iterable type: 'a'.*in_set"):
        predicate.do_include({"a": 1})


#: The numbers below 20 that Petastorm 0.13.1 selects for the first subset.
FIRST = [0, 1, 3, 5, 6, 10, 13]


def chosen(fractions: list[float], index: int, values: Any = range(20)) -> list[Any]:
    predicate = by.in_pseudorandom_split(fractions, index, "a")
    return [value for value in values if predicate.do_include({"a": value})]


def test_pseudorandom_split_selects_same_rows_as_petastorm() -> None:
    assert chosen([0.3, 0.7], 0) == FIRST
    assert chosen([0.3, 0.7], 1) == [i for i in range(20) if i not in FIRST]
    assert chosen([0.3, 0.7], -2) == FIRST
    values = ["a", "ü", "", b"x", 1.5, np.float32(0.1), True, np.datetime64("2020-01-01")]
    assert chosen([0.5, 0.5], 0, values) == ["ü", "", 1.5]
    assert chosen([0.3, 0.7], 1, [None]) == [None]


def test_subset_index_out_of_range_raises_error() -> None:
    for index in (2, -3, 0.5, None):
        with pytest.raises(InvalidArgumentError, match="subset_index is out of range"):
            by.in_pseudorandom_split([0.3, 0.7], index, "a")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Tested values does not have split key: a"):
        by.in_pseudorandom_split([0.3, 0.7], 0, "a").do_include({"b": 1})
