"""Values at the borders of what shards store are returned with their bits, whoever wrote them.

The values of each encoding are in `tests.kit.borders`: a new encoding fails here until it has some.
Each value is written first and last among ordinary ones, and in all rows.
"""

import io
import struct
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from PIL.Image import Image
from PIL.Image import open as open_image
from tests.kit.borders import ENCODINGS, ROWS, SIZES, Border, borders, columns_of
from tests.kit.small_datasets import plan

from mdstorm import convert
from mdstorm_backend import MDSWriter, open_dataset
from mdstorm_backend.format.encodings.registry import parse_encoding
from mdstorm_backend.format.values.arrow_types import spark_type_of
from mdstorm_backend.format.values.nested_lists import element_type
from mdstorm_backend.storage import Location
from mdstorm_backend.write import commit, job_files
from mdstorm_backend.write.full_shard import ShardFormat
from mdstorm_backend.write.tasks import PartitionJob, reports_by_partition, write_batches

Columns = dict[str, list[Any]]


def by_samples(border: Border, columns: Columns, out: str) -> None:
    with MDSWriter(columns=dict.fromkeys(columns, border.encoding), out=out) as writer:
        for row in range(ROWS):
            writer.write({name: values[row] for name, values in columns.items()})


def by_columns(border: Border, columns: Columns, out: str) -> None:
    table = pa.table({name: border.column(values) for name, values in columns.items()})
    with MDSWriter(columns=dict.fromkeys(columns, border.encoding), out=out) as writer:
        writer.write_batch(table)


def by_task(table: pa.Table, out: str) -> None:
    """Write a table as a task of Spark writes its partition."""
    schema = plan({field.name: spark_type_of(field.type) for field in table.schema})  # type: ignore[misc]
    location = Location.of(out)
    job_files.mark_directory(location)
    job = PartitionJob("0123abcd", (location,), ShardFormat(1 << 26))
    (result,) = write_batches(iter(table.to_batches()), job=job, schema=schema)
    (reports,) = reports_by_partition(result["report"].to_pylist()).values()
    commit.publish(location, schema, reports)


def by_convert(table: pa.Table, out: str) -> None:
    pq.write_table(table, f"{out}.parquet")
    convert(f"{out}.parquet", out)


def content(value: Any, *, has_nan: bool = True) -> Any:
    """Return what makes up a value, which is equal only if all bits are.

    Without `has_nan`, all single NaNs are equal: Python's `struct`, which writes samples, may
    change their bits.
    """
    if not has_nan and isinstance(value, np.floating) and np.isnan(value):
        return "NaN"
    if isinstance(value, (np.ndarray, np.generic)):
        return value.dtype.name, value.shape, value.tobytes()
    if isinstance(value, Image):
        return value.mode, value.size, value.tobytes(), value.getpalette()
    return [content(each) for each in value] if isinstance(value, list) else (type(value), value)


def stored(border: Border, value: Any) -> Any:
    """Return a value as it is read: files are opened, and JPEG loses what it always does."""
    encoding = parse_encoding(border.encoding)
    return encoding.decode(encoding.encoder()(value)) if "jpeg" in border.encoding else value


def in_sample(value: Any, encoding: str) -> Any:
    """Return a value as samples have it: older versions of Pillow open 16 bits as 32."""
    if encoding != "png" or value.mode != "I;16":
        return value
    value.save(file := io.BytesIO(), "PNG")
    return value.convert(open_image(file).mode)


def in_batch(values: list[Any], encoding: str) -> list[Any]:
    """Return values as batches have them: numbers of NumPy, and the pixels of images."""
    if encoding in ("pkl", "json"):
        return values
    if all(isinstance(value, (int, float)) for value in values):
        array = np.array(values)
        return list(array) if array.dtype == type(values[0]) else values
    return [pixels(value) for value in values]


def pixels(value: Any) -> Any:
    """Return the pixels of images, in colours that NumPy has, and other values unchanged."""
    if isinstance(value, list):
        return [pixels(each) for each in value]
    if not isinstance(value, Image):
        return value
    mode = {"1": "L", "P": "RGB", "CMYK": "RGB", "YCbCr": "RGB"}.get(value.mode, value.mode)
    return np.asarray(value.convert(mode))


@pytest.mark.parametrize("write", [by_samples, by_columns])
@pytest.mark.parametrize("name", ENCODINGS)
def test_values_have_the_bits_that_were_written(
    name: str, write: Callable[[Border, Columns, str], None], tmp_path: Path
) -> None:
    for number, border in enumerate(borders(name)):
        if write is by_columns and not border.has_columns:
            continue
        columns, out = columns_of(border), str(tmp_path / f"{number}")
        write(border, columns, out)
        dataset = open_dataset(out, allow_unsafe_types=True)
        samples = [dataset[row] for row in range(ROWS)]
        (batch,) = dataset.batches(ROWS)
        has_nan = write is not by_samples
        for column, values in columns.items():
            expected = [stored(border, value) for value in values]
            alone = [in_sample(value, border.encoding) for value in expected]
            together = in_batch(expected, border.encoding)
            found = [content(sample[column], has_nan=has_nan) for sample in samples]
            assert found == [content(each, has_nan=has_nan) for each in alone], (border, column)
            found = [content(each, has_nan=has_nan) for each in batch[column]]
            assert found == [content(each, has_nan=has_nan) for each in together], (border, column)


def parts_of(array: pa.Array) -> Any:
    """Return the values of a column, numbers and those in lists as bits."""
    if pa.types.is_list(array.type):
        return array.value_lengths().to_pylist(), parts_of(array.flatten())
    if pa.types.is_floating(array.type) or pa.types.is_integer(array.type):
        return array.type, array.to_numpy().tobytes()
    return array.to_pylist()


def is_in_spark(type_: pa.DataType) -> bool:
    """Whether Spark has a type of numbers, or of lists: it has no unsigned ones, and no float16."""
    element = element_type(type_)
    return not (pa.types.is_unsigned_integer(element) or pa.types.is_float16(element))


def is_in_parquet(type_: pa.DataType) -> bool:
    """Whether pyarrow writes a type to Parquet, as it does float16 from version 15 on."""
    return not pa.types.is_float16(element_type(type_)) or int(pa.__version__.split(".")[0]) >= 15


@pytest.mark.parametrize(
    ("write", "has"), [(by_task, is_in_spark), (by_convert, is_in_parquet)], ids=["task", "convert"]
)
@pytest.mark.parametrize("name", ENCODINGS)
def test_tables_have_the_values_that_were_written(
    name: str,
    write: Callable[[pa.Table, str], None],
    has: Callable[[pa.DataType], bool],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = SimpleNamespace(partitionId=lambda: 0, taskAttemptId=lambda: 0)
    monkeypatch.setattr(pyspark.TaskContext, "get", lambda: task)
    # Types decide the encodings, so that encodings of the same arrays are one case.
    tables = {id(border.values): border for border in borders(name)}
    for number, border in enumerate(tables.values()):
        if border.type_ is None or not has(border.type_):
            continue
        columns, out = columns_of(border), str(tmp_path / f"{number}")
        table = pa.table({each: border.column(values) for each, values in columns.items()})
        write(table, out)
        found = open_dataset(out).to_table()
        for column in columns:
            expected = parts_of(table[column].combine_chunks())
            assert parts_of(found[column].combine_chunks()) == expected, (border, column)


def written(values: list[bytes], out: Path, **options: Any) -> list[Path]:
    """Write the values as samples, and as a batch, and return the directories."""
    for name in ("samples", "batch"):
        with MDSWriter(columns={"v": "bytes"}, out=str(out / name), **options) as writer:
            if name == "batch":
                writer.write_batch(pa.table({"v": pa.array(values, pa.binary())}))
            for value in values if name == "samples" else []:
                writer.write({"v": value})
    return [out / "samples", out / "batch"]


def offsets_of(directory: Path) -> list[int]:
    """Return where the samples of the first shard begin and the last one ends."""
    data = (directory / "shard.00000.mds").read_bytes()
    (count,) = struct.unpack_from("<I", data)
    return list(struct.unpack_from(f"<{count + 1}I", data, 4))


@pytest.mark.parametrize("border", [1 << 16, 1 << 24])
def test_samples_next_to_a_border_of_offsets_are_read(border: int, tmp_path: Path) -> None:
    firsts = [offsets_of(out)[0] for out in written([b"", b"", b""], tmp_path / "first")]
    for step in (-1, 0, 1):
        for index, first in enumerate(firsts):
            values = [bytes(border + step - first - 4), b"at the border", b"last"]
            out = written(values, tmp_path / f"{step} {index}")[index]
            assert offsets_of(out)[1] == border + step
            dataset = open_dataset(str(out))
            assert [dataset[row]["v"] for row in range(3)] == values
            assert dataset.to_table()["v"].to_pylist() == values


@pytest.mark.parametrize("count", [7, 8, 9, *SIZES[1:]])
def test_rows_and_nulls_are_returned_for_any_number_of_rows(count: int, tmp_path: Path) -> None:
    """Bitmaps have a bit for each row and each element, where a byte ends at eight."""
    last = np.arange(count) == count - 1
    numbers = pa.array(np.arange(count, dtype=np.int32), mask=last)
    lists = pa.ListArray.from_arrays(np.arange(count + 1, dtype=np.int32), numbers)
    texts = pa.array(["text"] * count, mask=~last)
    table = pa.table({"number": numbers, "lists": lists, "text": texts})
    with MDSWriter(out=str(tmp_path / "data")) as writer:
        writer.write_batch(table)
    dataset = open_dataset(str(tmp_path / "data"))
    assert len(dataset) == count
    assert dataset.to_table().select(table.column_names).equals(table)
    assert dataset[count - 1]["text"] == "text"


@pytest.mark.parametrize("rows", [1, 2, 3, 12])
@pytest.mark.parametrize("writer", [0, 1], ids=["samples", "batch"])
def test_size_limit_of_exactly_some_samples_is_used(
    writer: int, rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A byte less leaves a sample out, and a byte more adds none."""
    # Shards of batches keep room for this name and this much, for bitmaps of nulls.
    monkeypatch.setattr("mdstorm_backend.write.batch_shards._BITMAP_ENTRY", -len('"v"'))
    values, size = [bytes([n] * 9_000) for n in range(12)], 4 + 4 + 9_000
    one = written(values[:1], tmp_path / "one", size_limit=100_000)[writer]
    for step in (-1, 0, 1):
        limit = offsets_of(one)[0] - 4 + rows * size + step
        # The header states the limit.
        limit -= len("100000") - len(str(limit))
        out = written(values, tmp_path / f"{step}", size_limit=limit)[writer]
        most = max(1, rows - (step < 0))
        dataset = open_dataset(str(out))
        found = [shard.samples for shard in dataset.index.shards]
        assert found == [most] * (12 // most) + [12 % most] * (12 % most > 0)
        assert [dataset[row]["v"] for row in range(12)] == values
        files = [shard.raw_data.bytes for shard in dataset.index.shards]
        assert step < 0 or max(files) == limit - step


@pytest.mark.long
def test_rows_of_10_000_shards_are_read_in_order(tmp_path: Path) -> None:
    table = pa.table({"number": range(10_007)})
    with MDSWriter(out=str(tmp_path), size_limit=1) as writer:
        writer.write_batch(table)
    dataset = open_dataset(str(tmp_path))
    assert len(dataset.index.shards) == len(table)
    assert dataset.to_table().select(["number"]).equals(table)
    assert [dataset[row]["number"] for row in (0, 9_999, 10_000, 10_006)] == [
        0,
        9_999,
        10_000,
        10_006,
    ]
