"""Hooks into Ray Train: which batches it has fetched but not used."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from mdstorm_backend.base import wrap

if TYPE_CHECKING:
    from mdstorm_backend.loaders import Consumer


#: The `Consumer` of the latest iteration of each of Ray Train's loaders.
_in_ray: weakref.WeakKeyDictionary[Any, Consumer] = weakref.WeakKeyDictionary()


def report_use_in_ray(module: ModuleType) -> None:
    """Record whether Ray Train has fetched a batch, or reached the end, before training needs it.

    Ray Train always fetches one batch ahead, to copy it to the device during training. If that
    batch counted as read, a loader that resumes from a state would skip it. If the end counted, a
    peek at the last batch of a resumed epoch would use up the epoch. Ray Train only requests
    batches, and has no API that reports which ones it has not used. So this wraps its class's
    iteration, during which it sets a `Consumer` for the loaders. Tested with Ray 2.60.
    """
    wrapped = getattr(module, "_WrappedDataLoader", None)
    wrap(wrapped, "__iter__", _beginning_in_ray)
    wrap(wrapped, "__next__", _continuing_in_ray)


def _beginning_in_ray(iterate: Callable[[Any], Any]) -> Any:
    def begin(self: Any) -> Any:
        with _new_consumer_in_ray(self).requesting():
            return iterate(self)

    return begin


def _continuing_in_ray(iterate: Callable[[Any], Any]) -> Any:
    def iterate_and_finish(self: Any) -> Any:
        consumer = _in_ray.get(self) or _new_consumer_in_ray(self)
        try:
            with consumer.requesting():
                return iterate(self)
        except StopIteration:
            consumer.has_used_end = True
            raise

    return iterate_and_finish


def _new_consumer_in_ray(wrapped: Any) -> Consumer:
    """Return the `Consumer` of a new iteration of one of Ray's loaders."""
    from mdstorm_backend.loaders import Consumer

    alive = weakref.ref(wrapped)

    def count_unused() -> int:
        return int(getattr(alive(), "next_batch", None) is not None)

    consumer = _in_ray[wrapped] = Consumer(count_unused, has_used_end=False)
    return consumer
