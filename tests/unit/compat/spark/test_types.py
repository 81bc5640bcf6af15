"""Every Spark type, from a DataFrame through the converter to both frameworks."""

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import tensorflow as tf
import torch
from pyspark.errors import AnalysisException
from tests.conftest import of_values
from tests.unit.compat.spark.converters import IN_ORDER

from mdstorm.errors import UnsupportedTypeError
from mdstorm.spark import make_spark_converter

pytestmark = of_values

#: 2020-01-01 00:00 as nanoseconds since 1970, in New York (05:00 UTC) and without a time zone.
NEW_YORK, WALL_CLOCK = 1_577_854_800 * 10**9, 1_577_836_800 * 10**9
DAY = 86_400 * 10**9
MIDNIGHT = "'2020-01-01 00:00:00'"
FLOAT_1_1 = 1.100000023841858


class Case(NamedTuple):
    """Two SQL literals, their types in PyTorch and TensorFlow, and their values."""

    literals: tuple[str, str]
    torch_dtype: torch.dtype | type
    tf_dtype: tf.DType
    torch: list[Any]
    #: The values in TensorFlow, if they differ.
    tf: list[Any] | None = None


WIDE, NO_TEXTS = (torch.int64, tf.int64), "CAST(array() AS ARRAY<STRING>)"
CASES = {
    "boolean": Case(("true", "false"), torch.uint8, tf.bool, [1, 0], [True, False]),
    "byte": Case(("-128Y", "127Y"), torch.int8, tf.int8, [-128, 127]),
    "short": Case(("-1S", "1S"), torch.int16, tf.int16, [-1, 1]),
    "int": Case(("-1", "1"), torch.int32, tf.int32, [-1, 1]),
    "long": Case(("-1L", "1L"), *WIDE, [-1, 1]),
    "float": Case(
        ("float('1.1')", "float('inf')"), torch.float32, tf.float32, [FLOAT_1_1, float("inf")]
    ),
    "double": Case(("1.1D", "1D"), torch.float32, tf.float32, [FLOAT_1_1, 1]),
    "decimal": Case(
        ("CAST(4.5 AS DECIMAL(5,2))", "CAST(-1 AS DECIMAL(5,2))"),
        *(list, tf.string, [Decimal("4.50"), Decimal("-1.00")], [b"4.50", b"-1.00"]),
    ),
    "string": Case(("'a\\u0000'", "'ü'"), list, tf.string, ["a\0", "ü"], [b"a\0", "ü".encode()]),
    "binary": Case(("X'00FF00'", "X''"), list, tf.string, [b"\0\xff\0", b""]),
    "date": Case(
        ("DATE'1970-01-02'", "DATE'1969-12-31'"),
        *(list, tf.int64, [dt.date(1970, 1, 2), dt.date(1969, 12, 31)], [DAY, -DAY]),
    ),
    "timestamp": Case(
        (f"TIMESTAMP{MIDNIGHT}", "TIMESTAMP'1969-12-31 19:00:00.000001'"), *WIDE, [NEW_YORK, 1000]
    ),
    "timestamp_ntz": Case(
        (f"TIMESTAMP_NTZ{MIDNIGHT}", "TIMESTAMP_NTZ'1970-01-01 00:00:00'"), *WIDE, [WALL_CLOCK, 0]
    ),
    "interval": Case(
        ("INTERVAL '0.000001' SECOND", "INTERVAL '-1' SECOND"), *WIDE, [1, -1_000_000]
    ),
    "matrix": Case(
        ("array(1.5D, 2D)", "array(3D, 4D)"), torch.float32, tf.float32, [[1.5, 2], [3, 4]]
    ),
    "ragged": Case(("array(1, 2)", "CAST(array() AS ARRAY<INT>)"), list, tf.int32, [[1, 2], []]),
    "booleans": Case(
        ("array(true)", "array(false)"), torch.uint8, tf.bool, [[1], [0]], [[True], [False]]
    ),
    "dates": Case(
        ("array(DATE'1970-01-02')", "array(DATE'1970-01-01')"),
        *(list, tf.int64, [[dt.date(1970, 1, 2)], [dt.date(1970, 1, 1)]], [[DAY], [0]]),
    ),
    "timestamps": Case(
        (f"array(TIMESTAMP{MIDNIGHT})", "array(TIMESTAMP'1969-12-31 19:00:00')"),
        *(*WIDE, [[NEW_YORK], [0]]),
    ),
    "strings": Case(
        ("array('a', 'b')", NO_TEXTS), list, tf.string, [["a", "b"], []], [[b"a", b"b"], []]
    ),
}


@pytest.fixture(scope="module")
def converter(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A converter over a frame with one column for each case."""
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    rows = [
        "SELECT " + ", ".join(f"{case.literals[i]} AS {name}" for name, case in CASES.items())
        for i in (0, 1)
    ]
    df = spark.sql(" UNION ALL ".join(rows)).coalesce(1)
    cache = tmp_path_factory.mktemp("types")
    made = make_spark_converter(df, decimals="decimal", parent_cache_dir_url=f"file://{cache}")
    spark.conf.set("spark.sql.session.timeZone", zone)
    yield made
    made.delete()


@pytest.fixture(scope="module")
def torch_batch(converter: Any) -> Any:
    (batch,) = converter.make_torch_dataloader(**IN_ORDER)
    return batch


@pytest.fixture(scope="module")
def tf_batch(converter: Any) -> Any:
    (batch,) = converter.make_tf_dataset(**IN_ORDER)
    return batch


@pytest.mark.parametrize("name", CASES)
def test_stored_type_becomes_tensor_in_torch(torch_batch: Any, name: str) -> None:
    values, case = torch_batch[name], CASES[name]
    if isinstance(values, torch.Tensor):
        assert values.dtype == case.torch_dtype
        assert values.tolist() == case.torch
    else:
        assert type(values) is case.torch_dtype
        assert [v.tolist() if isinstance(v, torch.Tensor) else v for v in values] == case.torch


@pytest.mark.parametrize("name", CASES)
def test_stored_type_becomes_tensor_in_tensorflow(tf_batch: Any, name: str) -> None:
    values, case = getattr(tf_batch, name), CASES[name]
    assert values.dtype == case.tf_dtype
    found = values.to_list() if isinstance(values, tf.RaggedTensor) else values.numpy().tolist()
    assert found == (case.torch if case.tf is None else case.tf)


def test_columns_keep_frame_order(torch_batch: Any, tf_batch: Any) -> None:
    assert list(torch_batch) == list(tf_batch._fields) == list(CASES)


WKB = "0101000000000000000000F03F0000000000000040"
MONTHS = "extract(YEAR FROM column) * 12 + extract(MONTH FROM column)"

#: Literals of types that cannot be stored, conversions that the errors suggest, and their results.
REFUSED = [
    ("INTERVAL '14' MONTH", "CAST(column AS INT)", 14),
    ("-INTERVAL '1-2' YEAR TO MONTH", MONTHS, -14),
    ("TIME'10:11:12.5'", "CAST(column AS STRING)", "10:11:12.5"),
    (f"st_geomfromwkb(X'{WKB}')", "st_asbinary(column)", bytes.fromhex(WKB)),
]
MORE_REFUSED = [
    ("INTERVAL '3' YEAR", "CAST(column AS INT)", 3),
    ("INTERVAL '1-2' YEAR TO MONTH", MONTHS, 14),
    ("make_interval(1, 2)", MONTHS, 14),
    ("parse_json('[1]')", "to_json(column)", "[1]"),
    (f"st_geogfromwkb(X'{WKB}')", "st_asbinary(column)", bytes.fromhex(WKB)),
]


@pytest.mark.parametrize(
    ("literal", "conversion", "value"),
    [*REFUSED, *(pytest.param(*case, marks=pytest.mark.long) for case in MORE_REFUSED)],
)
def test_conversion_suggested_by_error_stores_the_value(
    spark: Any, tmp_path: Path, literal: str, conversion: str, value: Any
) -> None:
    try:
        df = spark.sql(f"SELECT {literal} AS v")
        df.schema  # noqa: B018 - a Spark Connect client raises errors here
    except (AnalysisException, ValueError) as error:
        pytest.skip(f"this Spark version does not have the type: {error}")
    with pytest.raises(UnsupportedTypeError) as caught:
        make_spark_converter(df, parent_cache_dir_url=tmp_path.as_uri())
    assert conversion in caught.value.columns["v"]
    converted = df.selectExpr(f"{conversion.replace('column', 'v')} AS v")
    converter = make_spark_converter(converted, parent_cache_dir_url=tmp_path.as_uri())
    (batch,) = converter.make_torch_dataloader(**IN_ORDER)
    assert list(batch["v"]) == [value]
    converter.delete()
