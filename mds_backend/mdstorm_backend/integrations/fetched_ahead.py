"""Tell loaders of the batch that Lightning or Ray Train has fetched and not trained on yet.

A loader that goes on from a state would leave that batch out, if it counted as delivered. Lightning
fetches a batch ahead where there is no length, to know which is the last; Ray Train always does, to
copy it to the device meanwhile. Both ask a loader for nothing but batches and its state, so that it
cannot know: a contract is missing by which they say what they have not used. So this wraps the
iteration of the classes that fetch: loaders that are iterated there learn whom to ask. Tried with
Lightning 2.6.6, in both of its packages, and Ray 2.60.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

from mdstorm_backend.base import wrap

#: The class that fetches, and whether one of its objects has a batch that waits.
_FETCHING: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "lightning.pytorch.loops.fetchers": ("_PrefetchDataFetcher", lambda each: bool(each.batches)),
    "pytorch_lightning.loops.fetchers": ("_PrefetchDataFetcher", lambda each: bool(each.batches)),
    "ray.train.torch.train_loop_utils": (
        "_WrappedDataLoader",
        lambda each: each.next_batch is not None,
    ),
}


def put_in(module: ModuleType) -> None:
    """Wrap the iteration of the class that fetches."""
    name, is_waiting = _FETCHING[module.__name__]
    for method in ("__iter__", "__next__"):  # the second begins shorter loaders of several again
        wrap(getattr(module, name, None), method, partial(_telling, is_waiting))


def _telling(is_waiting: Callable[[Any], bool], iterate: Callable[[Any], Any]) -> Any:
    def iterate_and_tell(self: Any) -> Any:
        from mdstorm_backend.loaders.torch.loader_passes import FETCHES_AHEAD

        alive = weakref.ref(self)

        def has_last() -> bool:
            fetching = alive()
            return fetching is not None and is_waiting(fetching)

        token = FETCHES_AHEAD.set(has_last)
        try:
            return iterate(self)
        finally:
            FETCHES_AHEAD.reset(token)

    return iterate_and_tell
