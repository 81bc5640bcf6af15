"""Values that Arrow holds and Python or MDS cannot hold: errors name the column and the row."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kit.parquet_files import open_parquet

from mdstorm import make_batch_reader
from mdstorm_backend import MDSWriter
from mdstorm_backend.convert import convert_parquet
from mdstorm_backend.errors import CorruptDatasetError, EncodingError, EncodingRangeError
from mdstorm_backend.loaders.torch.torch_tensors import to_torch
from mdstorm_backend.maintenance import head
from mdstorm_backend.parquet import ParquetDataset

DATES = pa.array([1, None, -719_164, 2], pa.int32()).cast(pa.date32())
TIMES = pa.array([1, None, 1 << 60, 2], pa.int64()).cast(pa.timestamp("us", "UTC"))
_OFFSETS = pa.py_buffer(np.array([0, 1, 1, 3, 4], np.int32))
TEXTS = pa.StringArray.from_buffers(4, _OFFSETS, pa.py_buffer(b"a\xff\xfeb"))
_UNITS = pa.py_buffer(np.array([100, 0, 0, 0, 123_456_789, 0, 1, 0], np.int64))
DECIMALS = pa.Decimal128Array.from_buffers(pa.decimal128(5, 2), 4, [None, _UNITS])

FORMS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "scalar": lambda values: values,
    "struct": lambda values: pa.StructArray.from_arrays([values], ["a"]),
    "list": lambda values: pa.ListArray.from_arrays(pa.array([0, 1, 2, 3, 4], pa.int32()), values),
    "map": lambda values: pa.MapArray.from_arrays([0, 1, 2, 3, 4], list("abcd"), values),
}
VALUES = {
    "date": (DATES, EncodingRangeError),
    "time": (TIMES, EncodingRangeError),
    "text": (TEXTS, EncodingError),
    "decimal": (DECIMALS, EncodingError),
}
#: Readers, which convert all rows to Python objects.
READERS: dict[str, Callable[[ParquetDataset], Any]] = {
    "numpy": lambda dataset: list(dataset.batches(4)),
    "pandas": lambda dataset: dataset.to_pandas(),
    "sample": lambda dataset: dataset[2],
    "batch_reader": lambda dataset: list(make_batch_reader(dataset.url, schema_fields=["v"])),
    "torch": lambda dataset: to_torch(
        dataset.shard(0).read(np.arange(4), ["v"])["v"], dataset.schema["v"], "v"
    ),
}
CASES = [(kind, form) for kind in VALUES for form in FORMS]


def is_number(kind: str, form: str) -> bool:
    """Whether MDS stores the values as numbers, which NumPy can hold."""
    return kind in ("date", "time") and form in ("scalar", "list")


def dataset_of(path: Path, values: pa.Array, **options: Any) -> ParquetDataset:
    pq.write_table(pa.table({"n": range(4), "v": values}), path, **options)
    return open_parquet(f"file://{path}")


@pytest.mark.parametrize(("kind", "form"), CASES)
def test_conversion_of_an_invalid_value_to_python_names_its_row(
    kind: str, form: str, tmp_path: Path
) -> None:
    values, error = VALUES[kind]
    dataset = dataset_of(tmp_path / "a.parquet", FORMS[form](values))
    readers = dict(READERS)
    if is_number(kind, form):
        readers.pop("numpy")(dataset)
        if form == "list":
            readers.pop("sample")(dataset)
            readers.pop("pandas")(dataset)
        if kind == "time":  # frames and tensors refuse what is beyond nanoseconds
            readers = {name: readers[name] for name in readers if name == "sample"}
    for read in readers.values():
        with pytest.raises(error, match=r"column 'v' .* in row 2 of ") as found:
            read(dataset)
        assert type(found.value) is error


@pytest.mark.parametrize(("kind", "form"), CASES)
def test_conversion_to_mds_refuses_an_invalid_value_and_names_its_row(
    kind: str, form: str, tmp_path: Path
) -> None:
    values, error = VALUES[kind]
    dataset = dataset_of(tmp_path / "a.parquet", FORMS[form](values), row_group_size=1)
    target = tmp_path / "mds"

    def convert() -> Any:
        return convert_parquet(dataset, str(target), cut_at="row_groups", progress=False)

    if is_number(kind, form):
        assert convert().to_table().equals(dataset.to_table())
        return
    with pytest.raises(error, match=r"column 'v' has a value in row 2 "):
        convert()
    assert not target.exists()
    with (
        pytest.raises(error, match=r"column 'v' has a value in row 2 "),
        MDSWriter(out=str(tmp_path / "written")) as writer,
    ):
        writer.write_batch(dataset.to_table())


def test_damage_is_skipped_but_invalid_values_raise_error(tmp_path: Path) -> None:
    dataset_of(tmp_path / "a.parquet", TEXTS)
    with pytest.raises(EncodingError, match="in row 2 of"):
        list(make_batch_reader(f"file://{tmp_path}", on_corrupt="skip"))


def test_dictionary_with_text_that_is_not_utf8_is_not_called_damage(tmp_path: Path) -> None:
    values = pa.DictionaryArray.from_arrays(pa.array([0, 2]), TEXTS)
    pq.write_table(pa.table({"v": values}), tmp_path / "a.parquet")
    with pytest.raises(
        EncodingError, match=r"not UTF-8 in one of \['v'\]|'v' .*Invalid UTF8"
    ) as found:
        list(make_batch_reader(f"file://{tmp_path}", on_corrupt="skip"))
    assert not isinstance(found.value, CorruptDatasetError)


@pytest.mark.parametrize(("kind", "fix"), [("decimal", "more digits"), ("text", "as binary")])
def test_error_for_an_invalid_value_has_the_fix_for_its_type(
    kind: str, fix: str, tmp_path: Path
) -> None:
    dataset = dataset_of(tmp_path / "a.parquet", VALUES[kind][0])
    with pytest.raises(EncodingError) as found:
        dataset.to_pandas()
    assert [fix in str(found.value), "binary" in str(found.value)] == [True, kind == "text"]


@pytest.mark.parametrize(("kind", "shown"), [("date", "0000-12-30"), ("time", "38504-0")])
def test_head_shows_a_date_that_python_lacks_and_samples_of_mds_name_its_row(
    kind: str, shown: str, tmp_path: Path
) -> None:
    dataset = dataset_of(tmp_path / "a.parquet", VALUES[kind][0])
    made = convert_parquet(dataset, str(tmp_path / "mds"), cut_at="row_groups", progress=False)
    values = head(str(tmp_path / "mds"), 4)["v"]
    assert (values[0].year, values[1], values[2][:7]) == (1970, None, shown[:7])
    # With nulls in their column, dates and times are Python objects.
    with pytest.raises(EncodingRangeError, match=r"column 'v' .* in row 2 of .*\.mds"):
        made[2]


@pytest.mark.parametrize(
    ("encoding", "value"),
    [("str", b"\xff"), ("str", "\ud800"), ("json", b"\xff")],
)
def test_writer_of_samples_refuses_text_that_is_not_utf8(
    encoding: str, value: Any, tmp_path: Path
) -> None:
    with (
        pytest.raises(EncodingError, match=r"column 'v' .*utf-8"),
        MDSWriter(out=str(tmp_path), columns={"v": encoding}) as writer,
    ):
        writer.write({"v": value})


def test_binaries_that_are_not_utf8_are_refused_as_text(tmp_path: Path) -> None:
    data = pa.table({"v": [b"a", b"\xff"]})
    with (
        pytest.raises(EncodingError, match=r"column 'v' has a value in row 1 .*UTF8"),
        MDSWriter(out=str(tmp_path), columns={"v": "str"}) as writer,
    ):
        writer.write_batch(data)


def test_timestamps_beyond_microseconds_raise_error_instead_of_becoming_null(
    tmp_path: Path,
) -> None:
    times = pa.array([0, 1 << 60], pa.int64()).cast(pa.timestamp("ms"))
    dataset = dataset_of(tmp_path / "a.parquet", pa.concat_arrays([times, times]))
    for read in (lambda: dataset[1], dataset.to_table):
        with pytest.raises(EncodingRangeError, match=r"column 'v' .* in row 1 of 4 that microsec"):
            read()
