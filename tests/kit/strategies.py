"""Random Spark types, values and tables, for property tests."""

from dataclasses import dataclass
from datetime import timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from tests.kit.small_datasets import array_of, map_of, struct_of

from mdstorm_backend.format.values.arrow_types import SparkType, arrow_type

#: Settings for tests that write a dataset for each example, which is slow.
moderate = settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    largest = 10**precision - 1
    return st.integers(-largest, largest).map(lambda n: Decimal(f"{n}E{-scale}"))


#: Fixed-size scalar types, which can also be elements of numeric arrays.
NUMERIC: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "byte": integers(8),
    "short": integers(16),
    "integer": integers(32),
    "long": integers(64),
    "float": st.floats(width=32),
    "double": st.floats(),
    "date": st.dates(),
    "timestamp": st.datetimes(timezones=st.just(timezone.utc)),
    "timestamp_ntz": st.datetimes(),
    "interval day to second": integers(54).map(lambda n: timedelta(microseconds=n)),
}

ATOMIC: dict[str, st.SearchStrategy[Any]] = {
    **NUMERIC,
    "string": st.text(max_size=12),
    "binary": st.binary(max_size=12),
    "decimal(10,2)": decimals(10, 2),
    "decimal(38,18)": decimals(38, 18),
}

#: Arrays, maps and structs, nested to any depth, and the types inside them.
NESTED_TYPES: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(sorted(ATOMIC)),
    lambda inner: st.one_of(
        inner.map(array_of),
        st.builds(map_of, st.sampled_from(["string", "integer", "date"]), inner),
        st.dictionaries(st.text(min_size=1, max_size=3), inner, min_size=1, max_size=3).map(
            lambda fields: struct_of(**fields)
        ),
    ),
    max_leaves=4,
)


def values(spark_type: SparkType, *, nulls: bool = True) -> st.SearchStrategy[Any]:
    """Values of a type in the form that pyarrow accepts; inner values may be null."""
    if isinstance(spark_type, str):
        plain = ATOMIC[spark_type]
    elif spark_type["type"] == "array":
        plain = st.lists(values(spark_type["elementType"]), max_size=4)
    elif spark_type["type"] == "map":
        plain = st.dictionaries(
            values(spark_type["keyType"], nulls=False), values(spark_type["valueType"]), max_size=3
        ).map(lambda entries: list(entries.items()))
    else:
        plain = st.fixed_dictionaries({f["name"]: values(f["type"]) for f in spark_type["fields"]})
    return st.none() | plain if nulls else plain


@dataclass(frozen=True)
class Data:
    """A table and the Spark types of its columns."""

    table: pa.Table
    fields: dict[str, SparkType]


@st.composite
def arrays_of_one_length(draw: st.DrawFn, element: SparkType, rows: int) -> list[Any]:
    length = draw(st.integers(1, 4))
    row = st.lists(values(element, nulls=draw(st.booleans())), min_size=length, max_size=length)
    return draw(st.lists(st.none() | row, min_size=rows, max_size=rows))


@st.composite
def column(draw: st.DrawFn, spark_type: SparkType, rows: int) -> list[Any]:
    element = spark_type.get("elementType") if isinstance(spark_type, dict) else None
    if isinstance(element, str) and element in NUMERIC and draw(st.booleans()):
        return draw(arrays_of_one_length(element, rows))
    value = values(spark_type, nulls=draw(st.booleans()))
    return draw(st.lists(value, min_size=rows, max_size=rows))


SPARK_TYPES: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(sorted(ATOMIC)),
    st.sampled_from(sorted(NUMERIC)).map(array_of),
    st.just(array_of("string")),
    NESTED_TYPES,
)


@st.composite
def data(
    draw: st.DrawFn,
    types: st.SearchStrategy[Any] = SPARK_TYPES,
    *,
    min_rows: int = 0,
    max_rows: int = 30,
) -> Data:
    """A few rows of a few columns, whose names may be any text."""
    names = draw(st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=4, unique=True))
    rows = draw(st.integers(min_rows, max_rows))
    fields = {name: draw(types) for name in names}
    arrays = [pa.array(draw(column(t, rows)), arrow_type(t)) for t in fields.values()]
    return Data(pa.table(arrays, names=names), fields)
