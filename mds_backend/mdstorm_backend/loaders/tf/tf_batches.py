"""An MDS dataset as a `tf.data.Dataset` of namedtuples or model inputs.

`tf_pipeline` contains the stages that TensorFlow runs. `TFRuns` begins the iterations, and tracks
which batches were read and requested.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import tensorflow as tf

from mdstorm_backend import loaders
from mdstorm_backend.base import check_integer, warn_user
from mdstorm_backend.base.own_context import OwnContext
from mdstorm_backend.display import Described, Description
from mdstorm_backend.loaders.tf import tf_columns, tf_pipeline
from mdstorm_backend.loaders.tf.tf_columns import ColumnSpec
from mdstorm_backend.loaders.tf.tf_runs import TFRun, TFRuns
from mdstorm_backend.loaders.tf.tf_strategies import in_cluster, most_peeked, without_sharding
from mdstorm_backend.read.reader import check_batch_size


def make_tf_dataset(
    make_options: Callable[[], loaders.ReaderOptions],
    *,
    batch_size: int,
    prefetch: int | None = None,
    specs: Callable[[loaders.ReaderOptions], Sequence[ColumnSpec]] | None = None,
    type_name: str = "Batch",
    element: Callable[[Mapping[str, Any]], Any] | None = None,
) -> Any:
    """Make a dataset of batches.

    Parameters
    ----------
    make_options : callable
        Opens the dataset; called when the TensorFlow dataset is built.
    batch_size : int
        Rows per batch. Batches span epochs; only at the very end may they be shorter.
    prefetch : int, optional
        Batches that TensorFlow keeps ready; by default it decides.
    specs : callable, optional
        Returns the column specs; by default those of the stored columns. Required with a transform.
    type_name : str
        Name of the namedtuple type.
    element : callable, optional
        Makes the structure of a batch, such as ``(x, y)``, from its columns by name; by default a
        namedtuple.

    Returns
    -------
    tf.data.Dataset
        A ``tf.compat.v1.data.Dataset`` that is also its own context manager, for eager and graph
        mode.

    Raises
    ------
    InvalidArgumentError
        If `batch_size` is not a positive integer.
    """
    check_batch_size(batch_size)

    @lru_cache(maxsize=1)
    def opened() -> TFRuns:
        # Graph mode has no strategies, and no iterators in Python.
        peek = most_peeked if tf.executing_eagerly() else lambda by_python: 1
        return TFRuns(replace(make_options(), batch_size=batch_size), peek)

    def build() -> Any:
        runs = opened()
        options = runs.loader.options
        read = (specs or tf_columns.stored_specs)(options)
        columns = tf_columns.arranged_specs(read, options.outputs)
        names = tuple(spec.name for spec in columns)
        made = _namedtuples(type_name, names) if element is None else element
        is_share = options.order.is_share
        claim = runs.claim(may_be_split=is_share and in_cluster())
        dataset = tf_pipeline.batches_of(runs, columns, made, claim, prefetch)
        settings = tf.data.Options()
        # Otherwise TensorFlow would request a second batch with the first one, and the batch from
        # which Keras builds a model would count as an iteration.
        settings.experimental_optimization.inject_prefetch = False
        dataset = dataset.with_options(settings)
        return without_sharding(dataset) if is_share else dataset

    return _dataset_class()(build, opened)


def _namedtuples(type_name: str, names: tuple[str, ...]) -> Callable[[Mapping[str, Any]], Any]:
    row = tf_columns.row_type(type_name, names)
    return lambda columns: row(*columns.values())


class ContextDataset(Described, OwnContext):
    """Adds a ``with`` statement, statistics and a state to TensorFlow's datasets."""

    element_spec: Any

    def __init__(self, build: Callable[[], Any], runs: Callable[[], TFRuns]) -> None:
        self._build = build
        self._runs = runs
        self._home = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
        super().__init__(build())  # type: ignore[call-arg]

    def _mdstorm_description(self, *, full: bool) -> Description:
        loader = self._runs().loader
        options = loader.options
        sizes = [("batch_size", f"{options.batch_size}"), ("element_spec", f"{self.element_spec}")]
        sizes = [*options.shown, *sizes]
        found = loaders.describe_data(options.dataset, full=full)
        shown = options.output_columns.__contains__
        found = loaders.describe_order(found, options.order, len(options.dataset), sizes, shown)
        so_far = ("so far", self.statistics().delivered)
        return replace(found, facts=[*found.facts, so_far])

    def __enter__(self) -> Any:
        here = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
        # Legacy code may make the dataset in one graph, and use it in a ``with`` block in another.
        return self if here is self._home else type(self)(self._build, self._runs)

    def __iter__(self) -> Any:
        runs = self._runs()
        run = TFRun(runs.loader.recorder, by_python=True)
        iterator: Any = tf.data.Dataset.__iter__(self)
        iterator._mdstorm_run, iterator._mdstorm_runs = run, runs
        iterator_class: Any = type(iterator)
        iterator.__class__ = _counting_class(iterator_class)
        return iterator

    def statistics(self, *, last_pass: bool = False) -> loaders.Statistics:
        """Return the numbers of batches and rows so far, and the causes of waiting.

        In a Python loop, ``for batch in dataset``, the time that the loop waits is measured. In
        Keras and in a ``tf.function``, the time that TensorFlow's input pipeline waits is measured,
        which requests batches ahead of use. Batches count when the pipeline has read them.

        Parameters
        ----------
        last_pass : bool
            Include only the latest iteration, rather than all of them.
        """
        return loaders.Statistics.of(self._runs().loader.recorder, last_pass=last_pass)

    def state_dict(self, batches: int | None = None) -> dict[str, Any]:
        """Return the state of the latest iteration, for `load_state_dict`.

        A PyTorch loader with the same order, rank and batch size has the same states, and can load
        them.

        Parameters
        ----------
        batches : int, optional
            Number of batches used since the iteration began; by default, the number that Python
            code has taken, ``for batch in dataset``, without batches that TensorFlow has ready. In
            Keras or a ``tf.function``, batches cannot be counted, and the number is required.

        Raises
        ------
        InvalidArgumentError
            If `batches` is not an integer of at least 0.
        StateMismatchError
            If the number of batches is not known.
        """
        check_integer("batches", batches, lowest=0)
        return self._runs().state_dict(batches)

    def load_state_dict(self, state: dict[str, Any], *, skip_batches: int = 0) -> None:
        """Resume the next iteration from `state`, taken from this dataset or a PyTorch loader.

        With `skip_batches`, it begins this many batches after the state.

        If the number of batches is not known, and the state is within an epoch, a warning describes
        how to call Keras, which would cut the following epochs short.

        Raises
        ------
        InvalidArgumentError
            If the pass has fewer batches left than are to be skipped.
        StateMismatchError
            If the state was taken from a different dataset or way of reading, or is not a state.
        """
        runs = self._runs()
        runs.load_state_dict(state, skip_batches)
        warn_about_keras(self, runs.loader)

    def trace(self, state: dict[str, Any] | None = None) -> loaders.Trace:
        """Return which rows the batches have, on any rank, without reading data.

        Batches are counted from 0, from the beginning of the running or else the next iteration, or
        from where a state resumes.

        Raises
        ------
        InvalidArgumentError
            If only reading shows which rows a batch has.
        StateMismatchError
            If the state was taken from a different dataset or way of reading, or is not a state.
        """
        return self._runs().loader.trace(state)

    def _mdstorm_leave(self, kind: type[BaseException] | None) -> None:
        """Release open shards, since TensorFlow keeps datasets until the process ends.

        A pass's threads end with its iterator.
        """
        self._runs().loader.options.dataset.release()


def warn_about_keras(dataset: Any, loader: loaders.Loader) -> None:
    """Warn if Keras would cut the epochs after the rest of an epoch, which `loader` resumes.

    Parameters
    ----------
    dataset : tf.data.Dataset
        The dataset that has loaded a state.
    loader : Loader
        Reads the dataset.
    """
    # In graph mode the cardinality is not known here; Keras does not read datasets of graphs.
    batches = tf.get_static_value(dataset.cardinality())
    if batches == tf.data.UNKNOWN_CARDINALITY and loader.num_remaining() != 0:
        warn_user(
            "the number of batches in an epoch of this dataset is not known, and it resumes within "
            "an epoch. Keras ends all epochs of a fit after as many batches as the first one had, "
            "so it would leave out rows of the following epochs. Call fit(dataset, epochs=1) "
            "first, for the rest of this epoch, or fit(dataset.repeat(), steps_per_epoch=…). Loops "
            "without Keras read whole epochs"
        )


@lru_cache(maxsize=1)
def _dataset_class() -> Any:
    """Return the class of the datasets: a `ContextDataset` that is also a version 1 dataset."""
    return type(ContextDataset.__name__, (ContextDataset, v1_class()), {})


@lru_cache(maxsize=8)
def _counting_class(iterator_class: Any) -> Any:
    """Return a subclass of TensorFlow's iterator class that counts the batches taken."""

    class BatchCountingIterator(iterator_class):  # type: ignore[misc]
        """An iterator that reports to its `TFRun` what Python code takes."""

        _mdstorm_run: TFRun
        _mdstorm_runs: TFRuns
        _iterator_resource: Any

        def __del__(self) -> None:
            resources, self._iterator_resource = [self._iterator_resource], None
            self._mdstorm_run.release(resources)

        def __next__(self) -> Any:
            return self._mdstorm_take(super().__next__)

        def get_next(self) -> Any:
            return self._mdstorm_take(super().get_next)

        def get_next_as_optional(self) -> Any:
            self._mdstorm_runs.hand_over(self._mdstorm_run)
            return super().get_next_as_optional()

        @property
        def _type_spec(self) -> Any:
            # TensorFlow reads this when the iterator is passed to a tf.function.
            self._mdstorm_runs.hand_over(self._mdstorm_run)
            return super()._type_spec

        def _mdstorm_take(self, take: Callable[[], Any]) -> Any:
            runs, run = self._mdstorm_runs, self._mdstorm_run
            if not tf.executing_eagerly():  # a tf.function is being traced
                runs.hand_over(run)
                return take()
            if run.current is None:
                runs.expect(run)
            else:
                run.recorder.record_request()
            try:
                batch = take()
            except (StopIteration, tf.errors.OutOfRangeError):
                runs.take_end(run)
                run.recorder.record_received()
                raise
            run.take()
            return batch

    return BatchCountingIterator


#: Methods that make a dataset from another one.
_DERIVING = (
    "batch",
    "cache",
    "enumerate",
    "filter",
    "map",
    "prefetch",
    "repeat",
    "shuffle",
    "skip",
    "take",
    "unbatch",
    "with_options",
)


def v1_class() -> Any:
    """Return a subclass of TensorFlow's version 1 datasets for datasets made by `_DERIVING`.

    In version 1, ``map`` drops the cardinality, and Keras then reads until the data run out, with a
    warning. These methods are therefore those of version 2.
    """
    adapter = type(tf.compat.v1.data.Dataset.from_tensors(0))

    class V1Dataset(adapter):  # type: ignore[misc, valid-type]
        """A version 1 dataset that keeps its cardinality, like a version 2 dataset."""

        def concatenate(self, dataset: Any, name: str | None = None) -> Any:
            first, second = (tf_pipeline.with_known_shapes(part) for part in (self, dataset))
            return V1Dataset(tf.data.Dataset.concatenate(first, second, name=name))

    def as_in_version_2(method: str) -> Callable[..., Any]:
        def call(self: Any, *arguments: Any, **keywords: Any) -> Any:
            return V1Dataset(getattr(tf.data.Dataset, method)(self, *arguments, **keywords))

        return call

    for method in _DERIVING:
        setattr(V1Dataset, method, as_in_version_2(method))
    return V1Dataset
