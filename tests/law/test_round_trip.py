"""Data reads back unchanged, for any types, nulls, shards, order and columns."""

from random import Random
from tempfile import TemporaryDirectory

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.small_datasets import same_values, write_dataset
from tests.kit.strategies import Data, data, moderate
from tests.unit.mds_backend.read.readers import batches, exact

from mdstorm_backend.order.exact import ExactOrder
from mdstorm_backend.read.batch_formats import to_record_batch

SHARD_SIZES = st.sampled_from([1, 1500, 3000, 1 << 20])
BATCH_ROWS = st.integers(1, 31)


@moderate
@given(data(min_rows=1), SHARD_SIZES, BATCH_ROWS, st.integers(1, 3))
def test_every_type_reads_back_exactly(
    given_: Data, shard_size: int, batch_rows: int, tasks: int
) -> None:
    with TemporaryDirectory() as directory:
        dataset = write_dataset(
            directory,
            given_.table,
            given_.fields,
            shard_size=shard_size,
            batch_rows=batch_rows,
            tasks=tasks,
        )
        assert len(dataset) == len(given_.table)
        found = dataset.to_table()
        assert same_values(found, given_.table)
        assert found.schema.types == given_.table.schema.types


@moderate
@given(
    data(min_rows=1),
    SHARD_SIZES,
    BATCH_ROWS,
    st.integers(1, 40),
    st.sampled_from([1, 8192]),
    st.integers(0, 40),
    st.randoms(use_true_random=False),
)
def test_shuffled_rows_of_selected_columns_keep_their_values_together(
    given_: Data,
    shard_size: int,
    batch_rows: int,
    batch_size: int,
    block_rows: int,
    window: int,
    random: Random,
) -> None:
    table, fields = given_.table, dict(given_.fields)
    columns = random.sample(table.column_names, random.randint(1, len(fields)))
    # An additional column numbers the rows.
    number = "number of the row"
    table = table.append_column(number, pa.array(range(len(table)), pa.int64()))
    fields[number] = "long"
    with TemporaryDirectory() as directory:
        dataset = write_dataset(
            directory, table, fields, shard_size=shard_size, batch_rows=batch_rows
        )
        order = ExactOrder(seed=5, shuffle_shards=True, shuffle_rows=True, window=window)
        names = [*columns, number]
        options = {"columns": names, "exact_nulls": True, "block_rows": block_rows}
        schema = dataset.schema.select(names)
        found = pa.Table.from_batches(
            to_record_batch(batch, schema)
            for batch in batches(exact(dataset, order, batch_size, **options))
        )
    rows = found[number].to_numpy()
    assert sorted(rows) == list(range(len(table)))
    assert same_values(found, table.select(names).take(rows))
