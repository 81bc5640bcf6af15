"""An MDS dataset as a `tf.data.Dataset` of namedtuples.

Rows travel from the generator in large blocks and are cut into batches by TensorFlow, since every
element that a generator yields has a price of its own. Ragged columns, and the last batches of a
rank that is short of rows, are yielded as batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import chain
from typing import Any

import tensorflow as tf

from mdstorm_backend.base.own_context import OwnContext
from mdstorm_backend.loaders.reader_options import ReaderOptions
from mdstorm_backend.loaders.reading import Batching, Reading
from mdstorm_backend.loaders.runner import reading_of
from mdstorm_backend.loaders.tf.tf_rows import row_type
from mdstorm_backend.loaders.tf.tf_runs import TFRun, TFRuns
from mdstorm_backend.loaders.tf.tf_specs import ColumnSpec, check_nulls, spec_of_column
from mdstorm_backend.loaders.tf.tf_tensors import to_tf
from mdstorm_backend.read.batch_reader import check_batch_size

_BLOCK_ROWS = 1 << 16


def make_tf_dataset(
    make_options: Callable[[], ReaderOptions],
    *,
    batch_size: int,
    prefetch: int | None = None,
    specs: Callable[[ReaderOptions], Sequence[ColumnSpec]] | None = None,
    type_name: str = "Batch",
) -> Any:
    """Make a dataset of batches.

    Parameters
    ----------
    make_options : callable
        Opens the dataset; called when the TensorFlow dataset is built.
    batch_size : int
        Rows of a batch. Batches span epochs; only at the very end they may be shorter.
    prefetch : int, optional
        Batches that TensorFlow keeps ready; by default it decides.
    specs : callable, optional
        Says how the columns arrive; by default as they are stored. Needed with a transform.
    type_name : str
        Name of the namedtuple type.

    Returns
    -------
    tf.data.Dataset
        A ``tf.compat.v1.data.Dataset`` that is also its own context manager, for eager and for
        graph mode.

    Raises
    ------
    InvalidArgumentError
        If `batch_size` is not a positive integer.
    """
    check_batch_size(batch_size)

    @lru_cache(maxsize=1)
    def opened() -> TFRuns:
        return TFRuns(reading_of(make_options()), Batching(batch_size))

    def build() -> Any:
        runs = opened()
        options = runs.reading.options
        columns = list((specs or stored_specs)(options))
        dataset = _batches(runs, columns, batch_size, type_name)
        dataset = dataset.prefetch(tf.data.AUTOTUNE if prefetch is None else prefetch)
        return without_sharding(dataset) if options.order.is_share else dataset

    return _context_class()(build, opened)


def stored_specs(options: ReaderOptions) -> list[ColumnSpec]:
    """Return how the columns arrive without a transform; nulls without a value are refused."""
    specs = []
    for name in options.delivered:
        column = options.column(name)
        if column is None:
            specs.append(ColumnSpec(name, "bool"))
            continue
        specs.append(spec_of_column(column))
    check_nulls_of(options)
    return specs


def check_nulls_of(options: ReaderOptions) -> None:
    """Refuse stored columns with nulls that have no value in TensorFlow."""
    for column in options.null_checked:
        check_nulls(column, options.nulls.remaining(column))


def without_sharding(dataset: Any) -> Any:
    """Return a dataset that ``tf.distribute`` does not shard again."""
    settings = tf.data.Options()
    settings.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return dataset.with_options(settings)


def _batches(runs: TFRuns, specs: list[ColumnSpec], batch_size: int, type_name: str) -> Any:
    row = row_type(type_name, tuple(spec.name for spec in specs))
    cut_here = _must_cut_here(runs.reading, specs, batch_size)

    def read(leg: int) -> Iterator[Any]:
        for block in runs.blocks(int(leg), None if cut_here else _BLOCK_ROWS):
            for batch in block.batches() if cut_here else [block.batch]:
                yield row(*(to_tf(batch[spec.name], spec) for spec in specs))

    def read_all() -> Iterator[Any]:
        return chain.from_iterable(map(read, runs.legs()))

    def batches(rows: Callable[..., Iterator[Any]], *leg: Any) -> Any:
        signature = row(*(spec.signature for spec in specs))
        dataset = tf.data.Dataset.from_generator(rows, output_signature=signature, args=leg)
        return dataset if cut_here else dataset.rebatch(batch_size)

    if runs.reading.has_one_leg:
        return batches(read_all)
    legs = tf.data.Dataset.from_generator(
        runs.legs, output_signature=tf.TensorSpec((), tf.int64, "leg")
    )
    return legs.flat_map(partial(batches, read))


def _must_cut_here(reading: Reading, specs: list[ColumnSpec], batch_size: int) -> bool:
    """Whether batches cannot be left to TensorFlow, or gain nothing by it."""
    # Arrays of a free length have one length in a batch, but not in a block.
    if any(spec.ragged or None in spec.shape for spec in specs) or batch_size >= _BLOCK_ROWS // 2:
        return True
    return not reading.is_uniform(Batching(batch_size))


@lru_cache(maxsize=1)
def _context_class() -> Any:
    """Return the subclass of TensorFlow's own adapter class for ``tf.compat.v1`` datasets."""
    v1 = tf.compat.v1.data.Dataset
    adapter = type(v1.from_tensors(0))

    class ContextDataset(OwnContext, adapter):  # type: ignore[misc, valid-type]
        """A dataset that can stand in a ``with`` statement, and has a state."""

        def __init__(self, build: Callable[[], Any], runs: Callable[[], TFRuns]) -> None:
            self._build = build
            self._runs = runs
            self._home = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
            super().__init__(build())

        def __enter__(self) -> Any:
            here = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
            # Legacy code may make the dataset in one graph and enter it in another.
            return self if here is self._home else type(self)(self._build, self._runs)

        def __iter__(self) -> Any:
            run = self._runs().announce()
            iterator: Any = super().__iter__()
            kind: Any = type(iterator)
            iterator.__class__ = _counting_class(kind)
            iterator._mdstorm_run = run
            return iterator

        def state_dict(self, batches: int | None = None) -> dict[str, Any]:
            """Return where the iteration that was begun last stands, for `load_state_dict`.

            It is the state of a PyTorch loader of the same order, rank and batch size, and can be
            loaded by one.

            Parameters
            ----------
            batches : int, optional
                Batches that were used since the iteration began. By default those that Python code
                has taken, ``for batch in dataset``: what TensorFlow has ready is not counted.
                Inside of Keras or a ``tf.function`` nobody counts, and the number has to be given.

            Raises
            ------
            StateMismatchError
                If the number is not known.
            """
            return self._runs().state_dict(batches)

        def load_state_dict(self, state: dict[str, Any]) -> None:
            """Let the next iteration go on where `state` was taken, here or by a PyTorch loader.

            Raises
            ------
            StateMismatchError
                If it was taken from another dataset or another way of reading, or is no state.
            """
            self._runs().load_state_dict(state)

        def _leave(self) -> None:
            """Let go of open shards: TensorFlow keeps what it was given until the process ends.

            The threads of a pass end with its iterator.
            """
            self._runs().reading.options.dataset.release()

    return ContextDataset


@lru_cache(maxsize=8)
def _counting_class(iterator_class: Any) -> Any:
    """Return the subclass of TensorFlow's own iterator class that counts what it hands out."""

    class CountingIterator(iterator_class):  # type: ignore[misc]
        """An iterator that says what was taken from it."""

        _mdstorm_run: TFRun

        def __next__(self) -> Any:
            try:
                batch = super().__next__()
            except StopIteration:
                self._mdstorm_run.finish()
                raise
            self._mdstorm_run.delivered += 1
            return batch

        def get_next(self) -> Any:
            batch = super().get_next()
            self._mdstorm_run.delivered += 1
            return batch

    return CountingIterator
