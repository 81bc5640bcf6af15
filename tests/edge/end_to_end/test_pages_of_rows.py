"""The pages that read a converter's rows by number work with every kind of data."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.edge.end_to_end.test_documentation import DOCS, python_blocks, with_own_directories
from tests.kit.frameworks import import_framework

from mdstorm import convert
from mdstorm._datasets import write_petastorm_metadata
from mdstorm.codecs import ScalarCodec
from mdstorm.spark import make_spark_converter
from mdstorm.unischema import Unischema, UnischemaField
from mdstorm_backend.storage import Location

ROWS = 1000
#: Where a page makes its converter from a DataFrame, which has the columns that the page needs.
CONVERTER = re.compile(r"^(df = .*\n)?converter = make_spark_converter\(.*\)$", re.M)
#: In blocks that are about a DataFrame, or about the files of a copy, and not about rows by number.
OTHERS = re.compile(r"randomSplit|make_batch_reader")
SESSION = "spark = SparkSession.builder.getOrCreate()\n"
NUMBERS = np.arange(ROWS)
DATA = {
    "split.md": pa.table({"id": NUMBERS, "label": (NUMBERS % 10 == 0).astype(int)}),
    "trace-rows.md": pa.table({"id": NUMBERS, "customer": NUMBERS % 100}),
    "row-numbers.md": pa.table(
        {"x": NUMBERS / 1000, "label": np.where(NUMBERS == 321, 9, NUMBERS % 2)}
    ),
}


def parquet(table: pa.Table, at: Path) -> str:
    at.mkdir(exist_ok=True)
    for part in range(2):
        half = table.slice(part * ROWS // 2, ROWS // 2)
        pq.write_table(half, at / f"{part}.parquet", row_group_size=150)
    return str(at)


def mds(table: pa.Table, at: Path) -> str:
    convert(parquet(table, at.with_suffix(".parquet")), at, shard_size=3000, progress=False)
    return str(at)


def delta(table: pa.Table, at: Path) -> str:
    deltalake = pytest.importorskip("deltalake")
    for part in range(2):
        half = table.slice(part * ROWS // 2, ROWS // 2)
        deltalake.write_deltalake(str(at), half, mode="append")
    return str(at)


def iceberg(table: pa.Table, at: Path) -> str:
    tables = import_framework("tests.kit.iceberg_tables")
    at.mkdir(exist_ok=True)
    made = tables.catalog(at).create_table("n.t", table.schema)
    for part in range(2):
        made.append(table.slice(part * ROWS // 2, ROWS // 2))
    return str(tables.path_of(made))


def petastorm(table: pa.Table, at: Path) -> str:
    spark_types = pytest.importorskip("pyspark.sql.types")
    fields = [
        UnischemaField(
            field.name,
            np.dtype(field.type.to_pandas_dtype()).type,
            (),
            ScalarCodec(
                spark_types.LongType() if field.type == pa.int64() else spark_types.DoubleType()
            ),
            False,
        )
        for field in table.schema
    ]
    url = Path(parquet(table, at)).as_uri()
    write_petastorm_metadata(Location.of(url), Unischema("Rows", fields))
    return url


KINDS: dict[str, Callable[[pa.Table, Path], str]] = {
    "MDS": mds,
    "Parquet": parquet,
    "Delta": delta,
    "Iceberg": iceberg,
    "Petastorm": petastorm,
}


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("page", DATA)
def test_page_of_rows_works_with_each_kind_of_data(page: str, kind: str, tmp_path: Path) -> None:
    converter = make_spark_converter(KINDS[kind](DATA[page], tmp_path / "data"))
    names: dict[str, Any] = {"__name__": page, "converter": converter}
    blocks = python_blocks(DOCS / "how-to" / page)
    assert any(CONVERTER.search(block) for _, block in blocks)
    for line, block in blocks:
        if OTHERS.search(block):
            continue
        program = with_own_directories(CONVERTER.sub("", block).replace(SESSION, ""), tmp_path)
        exec(compile("\n" * line + program, page, "exec"), names)
