"""TensorFlow datasets over readers, batched without taking rows apart."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import tensorflow as tf

from mdstorm._readers.passes import can_pass_over, can_restart
from mdstorm._readers.reader import DatasetReader
from mdstorm._readers.sample_order import draws_seed
from mdstorm._tensorflow.column_specs import specs_of_schema
from mdstorm._tensorflow.elements import Elements, NGrams
from mdstorm.errors import InvalidArgumentError
from mdstorm.unischema import Unischema
from mdstorm_backend.loaders.tf import ColumnSpec, check_nulls_of, in_cluster, without_sharding


def dataset_of_rows(reader: Any) -> Any:
    """Return the dataset of a reader's rows, or batches."""
    specs = specs_of_schema(reader.schema)
    warn_of_decimals_in(reader)
    if can_pass_over(reader) and reader.batched_output:
        check_nulls_of(reader._mdstorm_options())

    def dataset(*, by_shard: bool) -> Callable[[], Any]:
        elements = Elements(reader, specs, by_shard)
        row = reader.schema.make_namedtuple_tf(*(spec.signature for spec in specs))
        return lambda: _with_options(
            tf.data.Dataset.from_generator(elements, output_signature=row), reader
        )

    by_shard = dataset(by_shard=True)
    # Where boundaries between row groups are not seen, elements may be larger, or smaller; but
    # arrays of a free length have one length in a row group alone.
    is_fixed = all(spec.is_fixed for spec in specs)
    anyhow = dataset(by_shard=False) if is_fixed or not reader.batched_output else by_shard
    if reader.batched_output:
        return _classes().batches(by_shard(), anyhow)
    return _classes().rows(anyhow)


def dataset_of_ngrams(reader: Any) -> Any:
    """Return the dataset of a reader's n-grams: dicts from offset to namedtuple."""
    specs = specs_of_ngram(reader)
    warn_of_decimals_in(reader)
    signature = {
        offset: _schema_at(reader, offset).make_namedtuple_tf(
            *(tf.TensorSpec(spec.shape, spec.dtype) for spec in columns)
        )
        for offset, columns in specs.items()
    }
    elements = NGrams(reader, specs)
    return _classes().plain(
        _with_options(tf.data.Dataset.from_generator(elements, output_signature=signature), reader)
    )


def warn_of_decimals_in(reader: Any) -> None:
    """Warn if a reader delivers decimals, of which nobody has said what becomes of them."""
    if isinstance(reader, DatasetReader):
        reader._mdstorm_warn_of_decimals("TensorFlow")


def specs_of_ngram(reader: Any) -> dict[int, list[ColumnSpec]]:
    """Return how the fields at each offset arrive."""
    offsets = range(min(reader.ngram.fields), max(reader.ngram.fields) + 1)
    return {offset: specs_of_schema(_schema_at(reader, offset)) for offset in offsets}


def _schema_at(reader: Any, offset: int) -> Unischema:
    schema: Unischema = reader.ngram.get_schema_at_timestep(reader.schema, offset)
    return schema


def _with_options(dataset: Any, reader: Any) -> Any:
    """Keep TensorFlow from sharding what the reader has sharded.

    Raises
    ------
    InvalidArgumentError
        If it would shard rows that each worker has in another order.
    """
    if in_cluster() and can_restart(reader) and draws_seed(reader._mdstorm_arguments):
        raise InvalidArgumentError(
            "TensorFlow leaves out the batches of other workers, but each worker's reader has "
            "its own random order, so some rows would be lost and others come twice: create the "
            'reader with cur_shard="auto", or with the same seed=… in all workers'
        )
    is_share = can_pass_over(reader) and reader._mdstorm_options().order.is_share
    return without_sharding(dataset) if is_share else dataset


class _Classes:
    """Subclasses of TensorFlow's own adapter class for ``tf.compat.v1`` datasets."""

    def __init__(self) -> None:
        adapter = type(tf.compat.v1.data.Dataset.from_tensors(0))

        class RowsDataset(adapter):  # type: ignore[misc, valid-type]
            """Rows out of a dataset of several at a time."""

            def __init__(self, parts: Callable[[], Any]) -> None:
                self._parts = parts
                # Not unbatch(): it ends the process at arrays without elements.
                super().__init__(parts().flat_map(tf.data.Dataset.from_tensor_slices))

            def batch(
                self, batch_size: Any, drop_remainder: bool = False, *others: Any, **options: Any
            ) -> Any:
                """Batch as TensorFlow does, but without taking the rows apart."""
                if others or options or not isinstance(drop_remainder, bool):
                    return super().batch(batch_size, drop_remainder, *others, **options)
                return adapter(self._parts().rebatch(batch_size, drop_remainder))

        class BatchesDataset(adapter):  # type: ignore[misc, valid-type]
            """Batches as they are stored, which know how to become rows."""

            def __init__(self, batches: Any, parts: Callable[[], Any]) -> None:
                self._parts = parts
                super().__init__(batches)

            def unbatch(self, *others: Any, **options: Any) -> Any:
                """Take the batches apart."""
                return RowsDataset(self._parts)

        self.plain = adapter
        self.rows = RowsDataset
        self.batches = BatchesDataset


@lru_cache(maxsize=1)
def _classes() -> _Classes:
    return _Classes()
