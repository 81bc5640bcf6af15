"""The class of the TensorFlow datasets that are made: one with a place, and statistics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import tensorflow as tf

from mdstorm_backend.base.own_context import OwnContext
from mdstorm_backend.display import Described, Description
from mdstorm_backend.loaders.descriptions import describe_data, in_order
from mdstorm_backend.loaders.statistics import Statistics
from mdstorm_backend.loaders.statistics_table import delivered
from mdstorm_backend.loaders.tf.tf_cardinality import v1_class
from mdstorm_backend.loaders.tf.tf_runs import TFRun, TFRuns


@lru_cache(maxsize=1)
def context_class() -> Any:
    """Return the class of what is made: one of the ``tf.compat.v1`` datasets."""
    base: Any = v1_class()

    class ContextDataset(Described, OwnContext, base):  # type: ignore[misc]
        """A dataset that can stand in a ``with`` statement, and has a state."""

        def __init__(self, build: Callable[[], Any], runs: Callable[[], TFRuns]) -> None:
            self._build = build
            self._runs = runs
            self._home = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
            super().__init__(build())

        def _mdstorm_description(self, *, full: bool) -> Description:
            runs = self._runs()
            options = runs.reading.options
            sizes = [("batch_size", f"{runs.batch_size}"), ("element_spec", f"{self.element_spec}")]
            found = describe_data(options.dataset, full=full)
            found = in_order(found, options.order, len(options.dataset), sizes)
            so_far = ("so far", ", ".join(delivered(self.statistics())))
            return replace(found, facts=[*found.facts, so_far])

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

        def statistics(self, *, last_pass: bool = False) -> Statistics:
            """Return what was delivered so far, and what was waited for.

            Where Python code takes the batches, ``for batch in dataset``, its waiting counts. In
            Keras and in a ``tf.function`` nobody sees it, and that of TensorFlow's input pipeline
            counts, which asks ahead. Rows are those that the pipeline has read.

            Parameters
            ----------
            last_pass : bool
                Only the iteration that was begun last, rather than all of them.
            """
            return self._runs().statistics(last_pass=last_pass)

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

        def _mdstorm_leave(self) -> None:
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
            run = self._mdstorm_run
            run.loop.ask()
            try:
                batch = super().__next__()
            except StopIteration:
                run.finish()
                run.loop.end(is_waiting=True)
                raise
            run.take()
            return batch

        def get_next(self) -> Any:
            run = self._mdstorm_run
            run.loop.ask()
            batch = super().get_next()
            run.take()
            return batch

    return CountingIterator
