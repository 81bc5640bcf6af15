"""TensorFlow datasets over readers of rows, batches or n-grams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import tensorflow as tf

from mdstorm._readers import can_pass_over, draws_seed, is_reader
from mdstorm._tensorflow.columns import schema_at, specs_of_ngram, specs_of_schema
from mdstorm._tensorflow.elements import Elements, NGrams
from mdstorm.errors import InvalidArgumentError
from mdstorm_backend.loaders import tf as tf_loaders


def dataset_of_rows(reader: Any) -> Any:
    """Return a TensorFlow dataset of a reader's rows or batches."""
    specs = specs_of_schema(reader.schema)
    warn_of_decimals_in(reader)
    if can_pass_over(reader) and reader.batched_output:
        tf_loaders.check_nulls_of(reader._mdstorm_options)

    def dataset(*, by_shard: bool) -> Blocks:
        return Blocks(reader, Elements(reader, specs, by_shard))

    by_shard = dataset(by_shard=True)
    # Elements may have any number of rows if row group boundaries are not visible to the user.
    # However, in a column of arrays with undeclared lengths, all arrays in an element must have the
    # same length, and users can only expect this within a row group.
    is_fixed = all(spec.is_fixed for spec in specs)
    anyhow = dataset(by_shard=False) if is_fixed or not reader.batched_output else by_shard
    if reader.batched_output:
        return _adapted(BatchesDataset)(by_shard, anyhow)
    return _adapted(RowsDataset)(anyhow)


def dataset_of_ngrams(reader: Any) -> Any:
    """Return a TensorFlow dataset of a reader's n-grams, as dicts from offset to namedtuple."""
    specs = specs_of_ngram(reader)
    warn_of_decimals_in(reader)
    signature = {
        offset: schema_at(reader, offset).make_namedtuple_tf(
            *(tf.TensorSpec(spec.shape, spec.dtype) for spec in columns)
        )
        for offset, columns in specs.items()
    }
    dataset = tf_loaders.traced_dataset(NGrams(reader, specs), _elements, signature)
    return _adapter()(_with_options(dataset, reader))


@dataclass(frozen=True)
class Blocks:
    """A reader's data in blocks, from which TensorFlow datasets of blocks or rows are created."""

    reader: Any
    elements: Elements

    def blocks(self) -> Any:
        """Return a dataset of blocks."""
        return self._dataset(_elements, [spec.signature for spec in self.elements.specs])

    def rows(self) -> Any:
        """Return a dataset of rows."""
        specs = self.elements.specs
        return self._dataset(_rows, [tf.TensorSpec(spec.shape, spec.dtype) for spec in specs])

    def _dataset(self, build: Any, specs: list[Any]) -> Any:
        signature = self.reader.schema.make_namedtuple_tf(*specs)
        dataset = tf_loaders.traced_dataset(self.elements, build, signature)
        return _with_options(dataset, self.reader)


def _elements(find: Any, specs: tuple[Any, ...], _: Any, source: Any) -> Any:
    """Return a dataset of the elements that a source reads; see `traced_dataset`."""
    return tf.data.Dataset.from_generator(
        lambda source: find(source).read(), args=(source,), output_signature=specs
    )


def _rows(find: Any, specs: tuple[Any, ...], _: Any, source: Any) -> Any:
    """Return a dataset of the rows in the blocks that a source reads; see `traced_dataset`."""
    blocks = tuple(tf.TensorSpec((None, *spec.shape), spec.dtype) for spec in specs)
    # Do not use unbatch(), which crashes the process on arrays without elements.
    return _elements(find, blocks, None, source).flat_map(
        lambda *columns: tf.data.Dataset.from_tensor_slices(columns)
    )


def warn_of_decimals_in(reader: Any) -> None:
    """Warn if a reader yields decimals and the user did not choose a type for them."""
    if is_reader(reader):
        reader._mdstorm_warn_of_decimals("TensorFlow")


def _with_options(dataset: Any, reader: Any) -> Any:
    """Turn off TensorFlow's sharding if the reader already shards the rows.

    Raises
    ------
    InvalidArgumentError
        If TensorFlow would shard rows that each worker reads in a different order.
    """
    if tf_loaders.in_cluster() and is_reader(reader) and draws_seed(reader._mdstorm_arguments):
        raise InvalidArgumentError(
            "TensorFlow drops the batches of other workers, but each worker's reader has "
            "its own random order, so some rows would be lost and others repeated: create the "
            'reader with cur_shard="auto", or with the same seed=… in all workers'
        )
    is_share = can_pass_over(reader) and reader._mdstorm_options.order.is_share
    return tf_loaders.without_sharding(dataset) if is_share else dataset


class ReaderDataset:
    """Adds a position to a TensorFlow dataset over a reader."""

    _elements: Elements

    def __iter__(self) -> Any:
        iterator: Any = tf.data.Dataset.__iter__(self)
        self._elements.begin(iterator)
        iterator._mdstorm_elements = self._elements
        iterator_class: Any = type(iterator)
        iterator.__class__ = _counting_class(iterator_class)
        return iterator

    def state_dict(self, items: int | None = None) -> dict[str, Any]:
        """Return the state of the latest iteration, for `load_state_dict`.

        Parameters
        ----------
        items : int, optional
            Number of this dataset's rows or batches used since the iteration began. By default,
            it is the number that Python code has taken, as in ``for item in dataset``. Items
            taken through derived datasets, such as by ``batch``, are not counted, so the number
            is then required.

        Raises
        ------
        StateMismatchError
            If the number of items is not known, or the reader has its own position.
        """
        return self._elements.state_dict(items)

    def load_state_dict(self, state: Mapping[str, Any], *, skip_batches: int = 0) -> None:
        """Resume the next iteration from a state of an equivalent dataset.

        If the state is within an epoch, a warning describes how to call Keras, which would cut
        the following epochs short.

        Parameters
        ----------
        state : mapping
            The state.
        skip_batches : int
            Number of batches of a batch reader to leave out after the state.

        Raises
        ------
        InvalidArgumentError
            If fewer than `skip_batches` remain in the pass, or this is a dataset of rows.
        StateMismatchError
            If `state` is not a state, or is from different data or a different way of reading.
        """
        loader = self._elements.load_state_dict(state, skip_batches)
        tf_loaders.warn_about_keras(self, loader)


class RowsDataset(ReaderDataset):
    """A dataset of rows that are read in blocks."""

    def __init__(self, parts: Blocks) -> None:
        self._parts, self._elements = parts, parts.elements
        super().__init__(parts.rows())  # type: ignore[call-arg]

    def batch(
        self, batch_size: Any, drop_remainder: bool = False, *others: Any, **options: Any
    ) -> Any:
        """Batch rows like TensorFlow, but without first splitting the blocks."""
        if others or options or not isinstance(drop_remainder, bool):
            return _adapter().batch(self, batch_size, drop_remainder, *others, **options)
        return _adapter()(self._parts.blocks().rebatch(batch_size, drop_remainder))


class BatchesDataset(ReaderDataset):
    """A dataset of batches, which can be unbatched into rows."""

    def __init__(self, batches: Blocks, parts: Blocks) -> None:
        self._parts, self._elements = parts, batches.elements
        super().__init__(batches.blocks())  # type: ignore[call-arg]

    def unbatch(self, *others: Any, **options: Any) -> Any:
        """Split batches into rows."""
        return _adapted(RowsDataset)(self._parts)


@lru_cache(maxsize=1)
def _adapter() -> Any:
    """Return the class of TensorFlow's version 1 datasets; TensorFlow has no public name for it."""
    return type(tf.compat.v1.data.Dataset.from_tensors(0))


@lru_cache(maxsize=2)
def _adapted(dataset_class: type[ReaderDataset]) -> Any:
    """Return a subclass whose objects are also version 1 datasets."""
    return type(dataset_class.__name__, (dataset_class, _adapter()), {})


@lru_cache(maxsize=8)
def _counting_class(iterator_class: Any) -> Any:
    """Return a subclass of TensorFlow's iterator class that counts the items taken."""

    class ItemCountingIterator(iterator_class):  # type: ignore[misc]
        """An iterator that reports each item taken to its `Elements`."""

        _mdstorm_elements: Elements

        def __next__(self) -> Any:
            return self._mdstorm_elements.take(super().__next__)

    return ItemCountingIterator
