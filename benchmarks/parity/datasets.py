"""Write or read datasets with a Unischema on Petastorm or on mdstorm.

    datasets.py petastorm|mdstorm write FOLDER
    datasets.py petastorm|mdstorm append FOLDER
    datasets.py petastorm|mdstorm read FOLDER LINES_FILE

Each library reads what the other writes. `read` writes one line per row to LINES_FILE.
"""

from __future__ import annotations

import hashlib
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812

LIBRARY = sys.argv[1]
codecs = import_module(f"{LIBRARY}.codecs")
metadata = import_module(f"{LIBRARY}.etl.dataset_metadata")
indexers = import_module(f"{LIBRARY}.etl.rowgroup_indexers")
indexing = import_module(f"{LIBRARY}.etl.rowgroup_indexing")
ngram = import_module(f"{LIBRARY}.ngram")
selectors = import_module(f"{LIBRARY}.selectors")
unischema = import_module(f"{LIBRARY}.unischema")
make_reader = import_module(LIBRARY).make_reader

ROWS, ROWS_PER_BLOCK = 90, 30
_SCALARS: list[tuple[str, Any, Any]] = [
    ("i8", np.int8, T.ByteType()),
    ("u8", np.uint8, T.ShortType()),
    ("i16", np.int16, T.ShortType()),
    ("u16", np.uint16, T.IntegerType()),
    ("i32", np.int32, T.IntegerType()),
    ("f32", np.float32, T.FloatType()),
    ("f64", np.float64, T.DoubleType()),
]
_ARRAYS = [np.bool_, np.int8, np.uint16, np.int64, np.float16, np.float32, np.float64]
_SHAPES: list[tuple[int | None, ...]] = [(3,), (None,), (2, None), (2, 2, 2)]
SELECTED = [("ids", 3), ("ids", ROWS - 1), ("words", "wörd 31"), ("words", "no"), ("prices", None)]


def field(name: str, dtype: Any, shape: Any = (), codec: Any = None, nullable: bool = False) -> Any:
    return unischema.UnischemaField(name, dtype, shape, codec, nullable)


def schema() -> Any:
    """Return a schema with all codecs and shapes, and scalars with and without a codec."""
    scalar, image = codecs.ScalarCodec, codecs.CompressedImageCodec
    fields = [
        field("id", np.int64, (), scalar(T.LongType())),
        field("part", np.str_, (), scalar(T.StringType())),
        field("flag", np.bool_, (), scalar(T.BooleanType())),
        field("word", np.str_, (), None, True),
        field("price", Decimal, (), scalar(T.DecimalType(12, 3)), True),
        field("jpeg", np.uint8, (8, 8, 3), image("jpeg", 90)),
        field("png", np.uint16, (4, None), image("png")),
    ]
    for name, dtype, spark_type in _SCALARS:
        fields.append(field(f"{name}_codec", dtype, (), scalar(spark_type)))
        fields.append(field(f"{name}_plain", dtype))
    for dtype in _ARRAYS:
        for number, shape in enumerate(_SHAPES):
            codec = codecs.CompressedNdarrayCodec() if number % 2 else codecs.NdarrayCodec()
            name = f"{np.dtype(dtype).name}_{number}"
            fields.append(field(name, dtype, shape, codec, nullable=number == 1))
    return unischema.Unischema("Everything", fields)


def row(i: int, of: Any) -> dict[str, Any]:
    """Return a row that depends only on its number."""
    random = np.random.default_rng(i)
    found: dict[str, Any] = {
        "id": i,
        "part": f"p {i % 3}",
        "flag": i % 2 == 0,
        "word": None if i % 5 == 0 else f"wörd {i}",
        "price": None if i % 7 == 0 else Decimal(i) / 8,
        "jpeg": random.integers(0, 256, (8, 8, 3), np.uint8),
        "png": random.integers(0, 65536, (4, 1 + i % 3), np.uint16),
    }
    for name, each in of.fields.items():
        if name in found:
            continue
        if each.nullable and i % 4 == 1:
            found[name] = None
        elif each.shape:
            shape = tuple(size or i % 4 for size in each.shape)
            found[name] = (random.random(shape) * 100).astype(each.numpy_dtype)
        else:
            found[name] = each.numpy_dtype(i)
    return found


def write(folder: Path, session: SparkSession) -> None:
    """Write a plain dataset, a partitioned one and one with `_metadata`, each in several blocks."""
    starts = range(0, ROWS, ROWS_PER_BLOCK)
    for start in starts:
        append(folder / "blocks", start, session)
        append(folder / "parts", start, session, partition_by=["part"])
        append(folder / "summary", start, session, use_summary_metadata=True)


def append(
    target: Path,
    start: int,
    session: SparkSession,
    partition_by: Sequence[str] = (),
    **options: bool,
) -> None:
    """Append a file with the block of rows that starts at `start`, and rebuild the index."""
    described, url = schema(), target.as_uri()
    numbers = range(start, start + ROWS_PER_BLOCK)
    rows = [unischema.dict_to_spark_row(described, row(i, described)) for i in numbers]
    with metadata.materialize_dataset(session, url, described, 1, **options):
        frame = session.createDataFrame(rows, described.as_spark_schema()).coalesce(1)
        frame.write.mode("append").partitionBy(*partition_by).parquet(url)
    chosen = [
        indexers.SingleFieldIndexer("ids", "id"),
        indexers.SingleFieldIndexer("words", "word"),
        indexers.FieldNotNullIndexer("prices", "price"),
    ]
    indexing.build_rowgroup_index(url, session.sparkContext, chosen)


def read(folder: Path) -> Iterator[str]:
    """Yield lines for each dataset: one per field, row and selection, and one for all n-grams."""
    for name in ("blocks", "parts", "summary"):
        url = (folder / name).as_uri()
        fields = metadata.get_schema_from_dataset_url(url).fields
        for each in fields.values():
            dtype = each.numpy_dtype
            type_ = np.dtype(dtype).name if issubclass(dtype, np.generic) else dtype.__name__
            yield f"{name} {each.name} {type_} {each.shape} {str(each.codec).partition('(')[0]}"
        for one in sorted(found(url), key=lambda one: int(one.id)):
            values = {key: described(value) for key, value in one._asdict().items()}
            yield f"{name} {' '.join(f'{key}={values[key]}' for key in sorted(values))}"
        time = fields["id"]
        pairs = ngram.NGram({0: [time], 1: [time]}, delta_threshold=1, timestamp_field=time)
        times = [(int(one[0].id), int(one[1].id)) for one in found(url, schema_fields=pairs)]
        yield f"{name} pairs {sorted(times)}"
        for index, value in SELECTED:
            selector = selectors.SingleIndexSelector(index, [value])
            ids = sorted(int(one.id) for one in found(url, rowgroup_selector=selector))
            yield f"{name} selected by {index} {value}: {ids}"


def found(url: str, **arguments: Any) -> list[Any]:
    with make_reader(
        url, reader_pool_type="dummy", shuffle_row_groups=False, **arguments
    ) as reader:
        return list(reader)


def described(value: Any) -> str:
    """Return a value's type, shape and digest as text."""
    if isinstance(value, np.ndarray):
        digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:10]
        return f"{value.dtype}{value.shape}:{digest}"
    return f"{type(value).__name__.rstrip('_')}:{value}"


def start_session() -> SparkSession:
    """Return the active session, or start one."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1")
    return builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()


def main() -> None:
    warnings.simplefilter("ignore")
    folder = Path(sys.argv[3])
    if sys.argv[2] == "read":
        Path(sys.argv[4]).write_text("\n".join(read(folder)), "utf-8")
        return
    session = start_session()
    if sys.argv[2] == "write":
        write(folder, session)
    else:
        append(folder / "blocks", ROWS, session)


if __name__ == "__main__":
    main()
