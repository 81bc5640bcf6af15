"""Run the first blocks of a page over Parquet instead of a DataFrame, and use what they define."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tests.edge.end_to_end.test_documentation import DOCS, python_blocks, with_own_directories

#: Lines about a session and its DataFrames, and the end of a program.
_OF_SPARK = re.compile(
    r"^(?:from pyspark.*|(?:spark|df|rows) = (?:Spark|spark).*|assert rows\..*"
    r"|converter\.delete\(\))\n",
    re.M,
)
#: The call that makes a page's converter.
_CONVERTER = re.compile(r"(?<=^converter = )make_spark_converter\((?:[^()]|\([^()]*\))*\)", re.M)


def text_of(page: str, blocks: slice, tmp_path: Path) -> str:
    """Return blocks of a page without Spark, and with their own directories."""
    text = "".join(block for _, block in python_blocks(DOCS / page)[blocks])
    return _OF_SPARK.sub("", with_own_directories(text, tmp_path))


def program_of(page: str, blocks: slice, data: Path, tmp_path: Path) -> str:
    """Return blocks of a page as a program whose converter reads the files at `data`."""
    text = text_of(page, blocks, tmp_path)
    return _CONVERTER.sub(f"make_spark_converter({str(data)!r})", text)


def run_blocks(page: str, blocks: slice, table: pa.Table, tmp_path: Path) -> dict[str, Any]:
    """Run blocks of a page over the rows of `table`, and return the names that they define."""
    data = tmp_path / "data"
    data.mkdir(exist_ok=True)
    for part in range(2):
        half = table.slice(part * len(table) // 2, len(table) // 2)
        pq.write_table(half, data / f"{part}.parquet", row_group_size=len(table) // 8)
    names: dict[str, Any] = {"__name__": page}
    exec(compile(program_of(page, blocks, data, tmp_path), page, "exec"), names)
    return names


def column(batches: Any, name: str = "id") -> list[Any]:
    """Return a column of batches."""
    return [value for batch in batches for value in batch[name].tolist()]


def some(loader: Any, count: int, name: str = "id") -> list[Any]:
    """Return a column of the first batches of a loop that is left with ``break``."""
    found = []
    for step, batch in enumerate(loader, start=1):
        found += batch[name].tolist()
        if step == count:
            break
    return found


def of_tensorflow(dataset: Any) -> Iterator[dict[str, Any]]:
    """Yield the batches of a ``tf.data.Dataset`` as the other functions take them."""
    for batch in dataset:
        yield {name: values.numpy() for name, values in batch._asdict().items()}
