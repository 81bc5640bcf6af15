"""``filters=`` and ``where=`` in one table, compared with what pyarrow keeps of the same rows.

The table has each operator, each type with and without nulls, pairs of conditions, and each way to
store the rows: with and without partitions and statistics, and as MDS shards.
"""

import datetime as dt
import re
from collections.abc import Callable
from decimal import Decimal
from functools import reduce
from itertools import combinations, product
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.kit.readers import batch_reader

import mdstorm
from mdstorm.errors import InvalidArgumentError

ROWS = 12
#: The operators of pyarrow, each as a function that makes the value from one of the column's.
OPERATORS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("=", "==", "!=", "<", ">", "<=", ">="), lambda value: value),
    "in": lambda value: [value, None],
    "not in": lambda value: [value],
}
DAY = dt.date(2026, 1, 1)
#: By type: a function from the numbers 0 to 5 to values in the same order.
TYPES: dict[pa.DataType, Callable[[int], Any]] = {
    pa.bool_(): lambda n: n > 2,
    pa.int8(): lambda n: n - 3,
    pa.int64(): lambda n: (n - 3) << 54,
    pa.uint64(): lambda n: n << 60,
    pa.float32(): lambda n: n / 2,
    pa.float64(): lambda n: float("nan") if n == 5 else n - 2.5,
    pa.string(): "abcdef".__getitem__,
    pa.binary(): lambda n: b"abcdef"[n : n + 1],
    pa.date32(): lambda n: DAY + dt.timedelta(n),
    pa.timestamp("us"): lambda n: dt.datetime(2026, 1, 1, n),
    pa.decimal128(6, 2): lambda n: Decimal(n) / 4,
}
#: The numbers of each row's values. Row groups have three rows, with overlapping bounds.
NUMBERS = [0, 1, 1, 2, 2, 3, 1, 0, 4, 5, 4, 5]


def _columns() -> dict[str, pa.Array]:
    """Return each type's values without and with nulls, and two columns for partitions."""
    columns = {"id": pa.array(range(ROWS), pa.int64())}
    for type_, value in TYPES.items():
        values = [value(number) for number in NUMBERS]
        holes = [None if row % 4 == 1 else value for row, value in enumerate(values)]
        columns |= {str(type_): pa.array(values, type_), f"{type_} null": pa.array(holes, type_)}
    columns["part"] = pa.array([row // 5 for row in range(ROWS)], pa.int32())
    columns["label"] = pa.array(["x", None, "y"] * (ROWS // 3), pa.string())
    return columns


TABLE = pa.table(_columns())
#: A value of each column but ``id``.
VALUES = {
    **{str(type_): value(2) for type_, value in TYPES.items()},
    **{f"{type_} null": value(1) for type_, value in TYPES.items()},
    "part": 1,
    "label": "x",
}
SINGLE = [
    *(
        (name, operator, make(VALUES[name]))
        for name in VALUES
        for operator, make in OPERATORS.items()
    ),
    *((name, operator, None) for name in VALUES for operator in ("=", "!=")),
]
#: Each of these holds for some rows, on columns that may be partitions, and on others.
PAIRED = [
    ("part", "=", 1),
    ("part", "!=", 0),
    ("label", "in", ["x"]),
    ("label", "=", None),
    ("id", ">", 6),
    ("int8 null", "<", 0),
    ("string", "not in", ["b"]),
    ("double null", "!=", None),
]
CONDITIONS = [
    *([one] for one in SINGLE),
    *([one, other] for one, other in combinations(PAIRED, 2)),
    *([[one], [other]] for one, other in combinations(PAIRED, 2)),
]
#: How the rows are stored.
FORMS: dict[str, dict[str, Any]] = {
    "statistics": {},
    "no statistics": {"write_statistics": False},
    "partitions": {"partition_cols": ["part", "label"]},
    "partitions, no statistics": {"partition_cols": ["part", "label"], "write_statistics": False},
    "mds": {},
}
WAYS = list(product(FORMS, ("filters", "where")))


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The table in each form, opened once for all conditions."""
    root = tmp_path_factory.mktemp("forms")
    for form, options in FORMS.items():
        if form != "mds":
            pq.write_to_dataset(TABLE, str(root / form), row_group_size=3, **options)
    mdstorm.convert(str(root / "statistics"), str(root / "mds"))
    return {form: mdstorm.open_dataset(root / form) for form in FORMS}


def ids(form: Any, argument: str, conditions: Any) -> list[int]:
    """Return the rows that a reader keeps."""
    try:
        with batch_reader(form, schema_fields=["id"], **{argument: conditions}) as reader:
            return sorted(row for batch in reader for row in batch.id.tolist())
    except InvalidArgumentError as error:
        if argument == "where" and "matches none" in str(error):
            return []
        raise


def expected(conditions: Any) -> list[int]:
    """Return the rows that pyarrow keeps, if a comparison with None is a search for nulls."""
    alternatives = conditions if isinstance(conditions[0], list) else [conditions]
    any_of = (reduce(pc.and_, map(_mask, terms)) for terms in alternatives)
    return TABLE.filter(reduce(pc.or_, any_of))["id"].to_pylist()


def _mask(term: Any) -> pa.Array:
    name, operator, value = term
    if value is None:
        return TABLE[name].is_null() if operator == "=" else TABLE[name].is_valid()
    rows = TABLE.filter(pq.filters_to_expression([term]))["id"]
    return pc.is_in(TABLE["id"], value_set=rows.combine_chunks())


def assert_equal_pyarrows(conditions: list[Any], form: Any, argument: str) -> None:
    found = {str(one): ids(form, argument, one) for one in conditions}
    assert found == {str(one): expected(one) for one in conditions}


@pytest.mark.filterwarnings("ignore:No matching data")
@pytest.mark.parametrize("number", range(len(WAYS)), ids=map("-".join, WAYS))
def test_rows_of_some_conditions_equal_pyarrows(number: int, forms: dict[str, Any]) -> None:
    """Each fourth condition is here in one of the ways to store and read the rows."""
    form, argument = WAYS[number]
    assert_equal_pyarrows(CONDITIONS[number :: 4 * len(WAYS)], forms[form], argument)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:No matching data")
@pytest.mark.parametrize(("form", "argument"), WAYS)
def test_rows_of_all_conditions_equal_pyarrows(
    form: str, argument: str, forms: dict[str, Any]
) -> None:
    assert_equal_pyarrows(CONDITIONS, forms[form], argument)


def test_table_has_all_operators(forms: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match="operators are") as caught:
        batch_reader(forms["mds"], filters=[("id", "no operator", 1)])
    listed = re.search(r"operators are (.*)$", str(caught.value), re.MULTILINE)
    assert listed
    assert listed[1].split(", ") == list(OPERATORS)
