"""pyarrow-style filters: which rows they keep, and which row groups they skip."""

import datetime as dt
import tempfile
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.parquet_files import open_parquet
from tests.kit.readers import batch_reader, row_reader
from tests.unit.compat.selection.parquet_files import batch_of, read_all, write

import mdstorm
from mdstorm import TransformSpec
from mdstorm._selection import RowFilter
from mdstorm.errors import InvalidArgumentError
from mdstorm_backend.datasets import Filters
from mdstorm_backend.parquet import ParquetDataset
from mdstorm_backend.read import objects

DAY = dt.date(2020, 1, 1)
TABLE = pa.table(
    {
        "year": [2019, 2019, 2020, 2020, 2021, 2021],
        "id": pa.array(range(6), pa.int64()),
        "n": pa.array([1, 2, None, 4, 5, 6], pa.int32()),
        "x": [0.5, None, 1.5, 2.0, 3.0, 4.0],
        "nan": [0.5, float("nan"), 1.5, 2.0, 3.0, 4.0],
        "s": ["a", None, "b", "c", "a", "z"],
        "b": [True, False, None, True, True, False],
        "day": [DAY + dt.timedelta(days) for days in range(6)],
        "at": pa.array([dt.datetime(2020, 1, 1 + hour) for hour in range(6)], pa.timestamp("us")),
        "took": pa.array([dt.timedelta(seconds=n) for n in range(6)], pa.duration("ms")),
        "price": [Decimal("1.50"), None, Decimal("2.00"), Decimal(3), Decimal(4), Decimal(5)],
        "pair": [[1, 2]] * 6,
        "list": [[1, 2], None, [], [None], [1], None],
        "words": [["a"], [None], None, [], ["b"], None],
    }
)


def pruned(dataset: ParquetDataset, filters: Filters) -> ParquetDataset:
    return dataset.with_shards(np.flatnonzero(dataset.may_match(filters)).tolist())


def kept(filters: Any, dataset: ParquetDataset) -> list[int]:
    parsed = Filters.of("filters", filters, dataset.schema)
    left = pruned(dataset, parsed)
    row_filter = RowFilter(parsed, left.schema)
    batches = read_all(left, exact_nulls=True)
    return [i for batch in batches for i in row_filter(batch)["id"].tolist()]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> ParquetDataset:
    return write(tmp_path_factory.mktemp("data"), TABLE, by=["year"])


@pytest.mark.parametrize(
    ("filters", "ids"),
    [
        ([("id", "in", [1, 2.5, 4])], [1, 4]),
        ([("list", "!=", None)], [0, 2, 3, 4]),
        ([("list", "=", None), ("words", "==", None)], [5]),
        ([("pair", "=", None)], []),
        ([("at", "<", np.datetime64("2020-01-03"))], [0, 1]),
        ([("at", "<", np.datetime64("2020-01-03", "ns"))], [0, 1]),
        ([("at", "=", dt.datetime(2020, 1, 3, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))))], [2]),
        ([("at", "in", [DAY, dt.datetime(2020, 1, 3)])], [0, 2]),
        ([("at", "in", [DAY, dt.datetime(2020, 1, 3, 12)])], [0]),
        ([("took", ">", dt.timedelta(seconds=3))], [4, 5]),
        ([("took", "in", [np.timedelta64(3, "s"), dt.timedelta(1)])], [3]),
        ([("nan", "in", [float("nan"), 4.0])], [1, 5]),
        ([("at", "<=", DAY)], [0]),
        ([("price", "in", [Decimal("1.5"), 3])], [0, 3]),
        ([("year", "=", "2020")], [2, 3]),
        ([("year", "in", ["2019", 2021]), ("s", "=", "a")], [0, 4]),
    ],
)
def test_filters_keep_matching_rows(filters: Any, ids: list[int], dataset: ParquetDataset) -> None:
    assert kept(filters, dataset) == ids


LARGE = (1 << 63) + 5


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        (("u", ">", 2), [2, 3]),
        (("u", "<=", np.uint64(2)), [0, 1]),
        (("u", "!=", -1), [0, 1, 2, 3]),
        (("u", "=", LARGE), [2]),
        (("u", "in", [2, LARGE]), [1, 2]),
        (("u", "not in", [LARGE]), [0, 1, 3]),
        (("u", "<", 1 << 80), [0, 1, 2, 3]),
    ],
)
def test_filters_compare_unsigned_integers_beyond_the_signed_range(
    condition: Any, ids: list[int], tmp_path: Any
) -> None:
    values = pa.array([1, 2, LARGE, (1 << 64) - 1], pa.uint64())
    dataset = write(tmp_path, pa.table({"id": range(4), "u": values}))
    assert kept([condition], dataset) == ids


def test_filters_skip_partitions_without_reading(dataset: ParquetDataset) -> None:
    either = [[("year", "=", "2020")], [("year", "=", 9)]]
    parsed = Filters.of("filters", either, dataset.schema)
    assert [group.partition["year"] for group in pruned(dataset, parsed).row_groups] == [2020]
    both = [("year", "!=", 2020), ("id", "=", 5)]
    parsed = Filters.of("filters", both, dataset.schema)
    assert [group.partition["year"] for group in pruned(dataset, parsed).row_groups] == [2021]


@pytest.mark.parametrize(
    ("filters", "firsts"),
    [
        ([("id", "=", 4)], [3]),
        ([("id", "<", 3)], [0]),
        ([("id", ">", 2.5)], [3]),
        ([("id", "in", [1, 2])], [0]),
        ([("id", "in", [1, 9]), ("s", ">", "y")], []),
        ([[("id", "=", 0)], [("s", "=", "z")]], [0, 3]),
        ([("day", "=", DAY)], [0]),
        ([("at", ">", np.datetime64("2020-01-05", "us"))], [3]),
        ([("price", ">", Decimal(2))], [3]),
        ([("nan", ">", 3.5)], [3]),
        # Row groups are read if their statistics are missing or inconclusive.
        ([("id", "!=", 1)], [0, 3]),
        ([("id", "not in", [0, 1, 2])], [0, 3]),
        ([("n", "=", None)], [0, 3]),
        ([("day", "in", [None])], [0, 3]),
        ([("id", "=", 2.0**60)], [0, 3]),
        ([("price", "=", 9)], [0, 3]),
        ([("unknown", "=", 9)], [0, 3]),
    ],
)
def test_filters_skip_row_groups_using_statistics(
    filters: Any, firsts: list[int], tmp_path: Any
) -> None:
    table = TABLE.append_column("unknown", pa.array(range(6)))
    known = [name for name in table.schema.names if name != "unknown"]
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=3, write_statistics=known)
    dataset = open_parquet(str(tmp_path))
    left = pruned(dataset, Filters.of("filters", filters, dataset.schema))
    assert [batch["id"][0] for batch in read_all(left)] == firsts


def test_partition_values_are_compared_as_strings(tmp_path: Any) -> None:
    table = pa.table({"kind": ["1", "1", "b", None], "id": range(4)})
    dataset = write(tmp_path, table, by=["kind"])
    assert kept([("kind", "=", 1)], dataset) == [0, 1]
    assert kept([("kind", "in", [1, "b"])], dataset) == [0, 1, 2]
    assert kept([("kind", "=", None)], dataset) == [3]


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ([], r"filters=\[\]: pass a list of tuples"),
        (5, "filters=5: pass a list of tuples"),
        ([["id", ">", 2]], "has the condition 'id': pass"),  # a list of lists means alternatives
        ([[("id", "=", 1)], 5], "pass a list of tuples"),
        ([("id", "~", 1)], r"has the condition \('id', '~', 1\): .* operators are =, =="),
        ([("idd", "=", 1)], "but the dataset has no column 'idd'.*id"),
        ([("pair", "=", 1)], "'pair'.* type list<.*only with None.*use a predicate"),
        ([("pair", "<", None)], "'pair'.* type list<.*only with None.*use a predicate"),
        ([("pair", "in", [None])], "'pair'.* type list<.*use a predicate"),
        ([("id", "in", 1)], r"\('id', 'in', 1\): 'in' needs a list"),
        ([("s", "not in", "ab")], r"\('s', 'not in', 'ab'\): 'not in' needs a list"),
        ([("s", "in", [3])], r"\('s', 'in', \[3\]\) cannot compare column 's' of type string"),
        ([("year", ">", "b")], r"'b'\) cannot compare column 'year' of type int64"),
    ],
)
def test_invalid_filters_raise_error(filters: Any, message: str, dataset: ParquetDataset) -> None:
    with pytest.raises(ValueError, match=message):
        Filters.of("filters", filters, dataset.schema)


VALUES = st.integers(-2, 3)
NAN = float("nan")
TERMS = st.one_of(
    st.tuples(st.sampled_from("inf"), st.sampled_from(["=", "!=", "<", ">", "<=", ">="]), VALUES),
    st.tuples(
        st.sampled_from("in"), st.sampled_from(["in", "not in"]), st.lists(VALUES, min_size=1)
    ),
    st.tuples(
        st.just("f"),
        st.sampled_from(["in", "not in"]),
        st.lists(VALUES.map(float) | st.just(NAN), min_size=1),
    ),
    st.tuples(st.just("s"), st.sampled_from(["=", "<", ">="]), st.sampled_from(["", "a", "b"])),
)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    rows = draw(st.integers(1, 10))

    def some(values: st.SearchStrategy[Any], type_: pa.DataType) -> pa.Array:
        return pa.array(draw(st.lists(values, min_size=rows, max_size=rows)), type_)

    return pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "i": some(VALUES, pa.int64()),
            "n": some(st.none() | VALUES, pa.int32()),
            "f": some(VALUES.map(float) | st.just(NAN), pa.float64()),
            "s": some(st.none() | st.sampled_from(["", "a", "ab", "b"]), pa.string()),
        }
    )


@given(tables(), st.lists(st.lists(TERMS, min_size=1, max_size=3), min_size=1, max_size=3))
def test_filtered_and_chosen_rows_equal_pyarrows(table: pa.Table, conditions: Any) -> None:
    # In memory: PyArrow's reader skips row groups whose statistics leave out NaN.
    expected = table.filter(pq.filters_to_expression(conditions))["id"].to_pylist()
    with tempfile.TemporaryDirectory() as directory:
        assert kept(conditions, write(directory, table, rows=3)) == expected
        options = {"where": conditions, "shuffle_row_drop_partitions": 2}
        if expected:
            made = batch_reader(f"file://{directory}", **options)
            assert [int(i) for batch in made for i in batch.id] == expected
        else:
            with pytest.raises(InvalidArgumentError, match="matches none"):
                batch_reader(f"file://{directory}", **options)


def test_filters_compare_object_arrays() -> None:
    batch, schema = batch_of(pa.table({"id": [0, 1], "s": ["a", "b"]}))
    batch["s"] = np.array(["a", "b"], object)  # decoded fields are stored as objects
    row_filter = RowFilter(Filters.of("filters", [("s", "=", "b")], schema), schema)
    assert row_filter(batch)["id"].tolist() == [1]


@pytest.mark.parametrize(("operator", "kept"), [("!=", [0, 2]), ("=", [1])])
def test_filters_find_nulls_among_arrays_of_different_shapes(operator: str, kept: Any) -> None:
    batch, schema = batch_of(pa.table({"id": [0, 1, 2], "m": [[1], None, [2, 3]]}))
    batch["m"] = objects([np.ones((1, 2)), None, np.ones((2, 2))])
    parsed = Filters.of("filters", [("m", operator, None)], schema)
    row_filter = RowFilter(parsed, schema)
    assert row_filter(batch)["id"].tolist() == kept


HOLES = pa.table(
    {
        "id": range(6),
        "n": pa.array([1, None, 0, None, None, None]),
        "x": pa.array([1.0, None, 0.0, None, float("nan"), 2.0]),
    }
)


@pytest.fixture(scope="module")
def holes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """URLs of the same rows in three forms."""
    root = tmp_path_factory.mktemp("holes")
    for name in ("parquet", "uncounted"):
        (root / name).mkdir()
        statistics = name == "parquet"
        path = root / name / "a.parquet"
        pq.write_table(HOLES, path, row_group_size=2, write_statistics=statistics)
    mdstorm.convert(str(root / "parquet"), str(root / "mds"))
    return {name: f"file://{root / name}" for name in ("parquet", "uncounted", "mds")}


@pytest.mark.matrix
@pytest.mark.parametrize("form", ["parquet", "uncounted", "mds"])
@pytest.mark.parametrize("nulls", [{}, {"fill_nulls": {"n": 0, "x": 0.0}}, {"null_masks": ["x"]}])
@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([("n", "=", 0)], [2]),
        ([("n", "=", None)], [1, 3, 4, 5]),
        ([("x", "!=", 0)], [0, 4, 5]),
        ([("x", "!=", None)], [0, 2, 4, 5]),
    ],
)
def test_filters_apply_to_stored_values_before_nulls_are_filled(
    filters: Any, expected: list[int], nulls: Any, form: str, holes: dict[str, str]
) -> None:
    with batch_reader(holes[form], filters=filters, **nulls) as reader:
        assert [i for batch in reader for i in batch.id.tolist()] == expected
    with batch_reader(holes[form], filters=filters, schema_fields=["id"]) as reader:
        assert [i for batch in reader for i in batch.id.tolist()] == expected
    with row_reader(holes[form], filters=filters, **nulls) as reader:
        assert [row.id for row in reader] == expected


@pytest.mark.matrix
@pytest.mark.parametrize("pool", ["thread", pytest.param("process", marks=pytest.mark.long)])
@pytest.mark.parametrize("form", ["uncounted", "mds"])
def test_filtered_rows_have_filled_nulls(form: str, pool: str, holes: dict[str, str]) -> None:
    with batch_reader(
        holes[form],
        filters=[("x", "!=", 0), ("id", ">", 0)],
        fill_nulls={"n": 7},
        null_masks=["n"],
        transform_spec=TransformSpec(doubled),
        reader_pool_type=pool,
    ) as reader:
        rows = [(batch.id.tolist(), batch.n.tolist(), batch.n_is_null.tolist()) for batch in reader]
    assert rows == [([4, 5], [14, 14], [True, True])]


def doubled(frame: Any) -> Any:
    return frame.assign(n=frame["n"] * 2)


@pytest.mark.parametrize("pool", ["thread", pytest.param("process", marks=pytest.mark.long)])
def test_functions_do_not_get_columns_that_only_filters_read(
    pool: str, holes: dict[str, str]
) -> None:
    with batch_reader(
        holes["parquet"],
        filters=[("x", "!=", 0)],
        schema_fields=["id"],
        transform_spec=TransformSpec(lambda frame: frame * 2),
        reader_pool_type=pool,
    ) as reader:
        assert [i for batch in reader for i in batch.id.tolist()] == [0, 8, 10]


def test_null_arrays_among_filtered_rows_are_filled_to_shape_of_others(tmp_path: Any) -> None:
    arrays = [[1.0, 2.0], None, [3.0, 4.0]]
    pq.write_table(pa.table({"id": range(3), "m": arrays}), tmp_path / "a.parquet")
    with batch_reader(
        f"file://{tmp_path}", filters=[("id", "in", [1])], fill_nulls={"m": 0}
    ) as reader:
        assert [batch.m.tolist() for batch in reader] == [[[0.0, 0.0]]]
