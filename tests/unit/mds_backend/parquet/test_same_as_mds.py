"""Parquet files yield the same values as the same data in MDS shards."""

from datetime import datetime
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.parquet_files import open_parquet
from tests.kit.small_datasets import same_values, write_dataset
from tests.kit.strategies import Data, data, moderate
from tests.unit.mds_backend.read.readers import batches, exact, numbered

from mdstorm_backend.datasets.dataset import Dataset
from mdstorm_backend.order.exact import ExactOrder
from mdstorm_backend.parquet import ParquetDataset
from mdstorm_backend.read.batch_formats import to_record_batch

ROW_GROUPS = st.integers(1, 31)


def storable(given_: Data) -> Data:
    """The columns that Parquet can store, which excludes durations and structs containing them."""
    names = [n for n in given_.fields if "interval" not in str(given_.fields[n])]
    return Data(given_.table.select(names), {n: given_.fields[n] for n in names})


def both(directory: str, data_: Data, rows: int) -> tuple[Dataset, ParquetDataset]:
    mds = write_dataset(f"{directory}/mds", data_.table, data_.fields, shard_size=1500, tasks=2)
    parts = Path(directory) / "parquet"
    parts.mkdir()
    half = len(data_.table) // 2
    pq.write_table(data_.table.slice(0, half), parts / "0.parquet", row_group_size=rows)
    pq.write_table(data_.table.slice(half), parts / "1.parquet", row_group_size=rows)
    return mds, open_parquet(str(parts))


def identity(values: Any) -> Any:
    """Return a key that is the same for equal values."""
    if isinstance(values, np.ndarray) and values.dtype != object:
        return values.dtype, values.shape, values.tobytes()
    if isinstance(values, np.ndarray):
        return [identity(value) for value in values]
    return type(values), repr(values)


def listed(array: Any) -> str:
    """Convert an array to a string that is the same for NumPy arrays and equal lists."""
    rows = array.tolist() if isinstance(array, np.ndarray) else array
    return repr([v.replace(tzinfo=None) if isinstance(v, datetime) else v for v in rows or ()])


def deeply_listed(value: Any) -> str:
    """Format nested numbers as floats, because integers beside a null list become float64."""

    def plain(value: Any) -> Any:
        if isinstance(value, (np.ndarray, list)):
            return [plain(item) for item in value]
        return float(value) if isinstance(value, (int, np.number, np.bool_)) else value

    return repr(plain(value))


@moderate
@given(data(min_rows=1).map(storable).filter(lambda d: bool(d.fields)), ROW_GROUPS)
def test_parquet_and_mds_return_equal_tables_batches_and_samples(given_: Data, rows: int) -> None:
    with TemporaryDirectory() as directory:
        mds, parquet = both(directory, given_, rows)
        assert parquet.schema.arrow_schema == mds.schema.arrow_schema
        assert same_values(parquet.to_table(), given_.table)
        everything = len(given_.table)
        (expected,) = mds.batches(everything)
        (found,) = parquet.batches(everything)
        assert list(found) == list(expected)
        samples = [(parquet[number], mds[number]) for number in range(everything)]
        for column in parquet.schema:
            name = column.name
            is_list = pa.types.is_list(column.arrow_type)
            deep = column.is_array and pa.types.is_list(column.arrow_type.value_type)
            same = deeply_listed if deep else listed if is_list else identity
            whole = (lambda rows, same=same: list(map(same, rows))) if is_list else identity
            assert whole(found[name]) == whole(expected[name]), column
            for one, other in samples:
                assert same(one[name]) == same(other[name]), column


@pytest.mark.long
@moderate
@given(
    data(min_rows=1).map(storable),
    ROW_GROUPS,
    st.integers(1, 40),
    st.sampled_from([1, 8192]),
    st.integers(0, 40),
    st.randoms(use_true_random=False),
)
def test_shuffled_rows_keep_their_values_together(
    given_: Data, rows: int, batch_size: int, block_rows: int, window: int, random: Random
) -> None:
    number = "number of the row"
    table = given_.table.append_column(number, pa.array(range(len(given_.table)), pa.int64()))
    with TemporaryDirectory() as directory:
        pq.write_table(table, f"{directory}/a.parquet", row_group_size=rows)
        parquet = open_parquet(directory)
        order = ExactOrder(seed=5, shuffle_shards=True, shuffle_rows=True, window=window)
        options = {"exact_nulls": True, "block_rows": block_rows}
        ids = random.choices(range(len(table)), k=2 * len(table))
        for blocks, numbers in (
            (exact(parquet, order, batch_size, **options), None),
            (numbered(parquet, ids, batch_size, **options), ids),
        ):
            found = pa.Table.from_batches(
                to_record_batch(b, parquet.schema) for b in batches(blocks)
            )
            table_rows = found[number].to_pylist()
            assert (
                table_rows == numbers if numbers else sorted(table_rows) == list(range(len(table)))
            )
            assert same_values(found, table.take(table_rows))


@pytest.mark.parametrize("rows", [2, 5, 100])
def test_stored_batches_have_the_requested_samples_across_shards_and_files(
    rows: int, tmp_path: Path
) -> None:
    fields = {"number": "long", "half": "double"}
    table = pa.table({"number": range(30), "half": [None, *np.arange(29) / 2]})
    for dataset in both(str(tmp_path), Data(table, fields), 4):
        for samples in (range(30), range(3, 3), range(1, 2), range(3, 21), range(16, 30)):
            found = list(dataset.stored_batches(samples, ["half", "number"], rows))
            batches = [to_record_batch(one, dataset.schema.select([*one])) for one in found]
            wanted = table.select(["half", "number"]).slice(samples.start, len(samples))
            assert all(batch.num_rows <= rows for batch in batches)
            assert pa.Table.from_batches(batches, wanted.schema).equals(wanted)
