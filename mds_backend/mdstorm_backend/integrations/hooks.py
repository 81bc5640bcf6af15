"""Hooks into training frameworks, each for a contract that the framework lacks."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from types import ModuleType
from typing import Any

from mdstorm_backend.base import wrap
from mdstorm_backend.errors import StateMismatchError


def hand_over_to_accelerate(module: ModuleType) -> None:
    """Let Accelerate hand loaders over before it splits them among its processes.

    Accelerate gives each process a part of what a loader reads. It has no contract for loaders that
    read the share of their process themselves: it asks whether a loader was prepared before, but
    not who could do so, and tells it neither the device nor how batches are to be split. So this
    wraps ``accelerate.data_loader.prepare_data_loader``, the documented function by which
    ``Accelerator.prepare`` makes its loaders, which is given all that.

    ``skip_first_batches`` makes a loader over the dataset of another one, and takes the length of
    that for a number of batches. So it is wrapped as well: what was prepared here skips by itself.
    Tried with Accelerate 1.15.
    """
    wrap(module, "prepare_data_loader", _handing_over)
    wrap(module, "skip_first_batches", _letting_skip)


def _handing_over(prepare: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(prepare)

    def prepare_data_loader(*args: Any, **kwargs: Any) -> Any:
        from mdstorm_backend.integrations.prepared_loader import prepared

        wanted = signature.bind(*args, **kwargs)
        wanted.apply_defaults()
        loader = prepared(wanted.arguments)
        return prepare(*args, **kwargs) if loader is None else loader

    return prepare_data_loader


def _letting_skip(skip: Callable[..., Any]) -> Callable[..., Any]:
    def skip_first_batches(dataloader: Any, num_batches: int = 0) -> Any:
        skipping = getattr(dataloader, "mdstorm_skipping", None)
        return skip(dataloader, num_batches) if skipping is None else skipping(num_batches)

    return skip_first_batches


#: The class that fetches, and whether one of its objects has a batch that waits.
_FETCHING: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "lightning.pytorch.loops.fetchers": ("_PrefetchDataFetcher", lambda each: bool(each.batches)),
    "pytorch_lightning.loops.fetchers": ("_PrefetchDataFetcher", lambda each: bool(each.batches)),
    "ray.train.torch.train_loop_utils": (
        "_WrappedDataLoader",
        lambda each: each.next_batch is not None,
    ),
}


def tell_what_was_fetched(module: ModuleType) -> None:
    """Tell loaders of the batch that Lightning or Ray Train has fetched and not trained on yet.

    A loader that goes on from a state would leave that batch out, if it counted as delivered.
    Lightning fetches a batch ahead where there is no length, to know which is the last; Ray Train
    always does, to copy it to the device meanwhile. Both ask a loader for nothing but batches and
    its state, so that it cannot know: a contract is missing by which they say what they have not
    used. So this wraps the iteration of the classes that fetch: loaders that are iterated there
    learn whom to ask. Tried with Lightning 2.6.6, in both of its packages, and Ray 2.60.
    """
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


def restore_in_lightning(module: ModuleType) -> None:
    """Give Lightning's loaders their states, and refuse those with which it loses batches.

    Lightning loads the states of loaders only where a checkpoint was written within an epoch. From
    its end it goes on with loaders that begin anew, and tells samplers alone which epoch it is, so
    that the first epochs would come again. Within an epoch it counts batches from where the
    checkpoint was written, and takes the length of the epoch with which it begins for that of all.
    In another world that is what was left of an epoch, so that batches of this one or the next ones
    would be left out.

    Loaders have no contract to say that their states hold between epochs as well, nor that a length
    is that of one epoch. So this wraps ``_FitLoop._load_combined_loader_states``. Tried with
    Lightning 2.6.6, in both of its packages.
    """
    wrap(getattr(module, "_FitLoop", None), "_load_combined_loader_states", _restoring)


def _restoring(load: Callable[[Any], None]) -> Any:
    def load_states(self: Any) -> None:
        for loader, state in _own_states(self):
            if self.restarting:
                _refuse_other_world(loader, state)
            else:
                _begin_after(loader, state)
        if not self.restarting:  # loaders that are made later, each for an epoch, have no state
            self._combined_loader_states_to_load = []
        load(self)

    return load_states


def _own_states(loop: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the loaders of ours that a loop trains with, each with the state to load."""
    from mdstorm_backend.loaders.torch.streaming_data_loader import StreamingDataLoader

    loaders = [] if loop._combined_loader is None else loop._combined_loader.flattened
    stateful = [loader for loader in loaders if hasattr(loader, "load_state_dict")]
    for loader, state in zip(stateful, loop._combined_loader_states_to_load, strict=False):
        if isinstance(loader, StreamingDataLoader) and loader._mdstorm.reads_blocks:
            yield loader, state


def _begin_after(loader: Any, state: Any) -> None:
    """Let the next iteration be that of the epoch after the one at whose end a state was taken."""
    with suppress(StateMismatchError):  # other data, which begin anew
        loader.load_state_dict(state)
        if state["sample_in_epoch"]:  # as with limit_train_batches, which leaves out the rest
            loader.set_epoch(state["epoch"] + 1)


def _refuse_other_world(loader: Any, state: object) -> None:
    ours = state.get("mdstorm") if isinstance(state, Mapping) else None
    before = ours.get("world_size") if isinstance(ours, Mapping) else None
    num_ranks = loader.dataset._mdstorm.count_ranks()
    if loader._mdstorm.has_length and before not in (None, num_ranks):
        raise StateMismatchError(
            f"the checkpoint was written in a world of size {before}, and this one is of size "
            f"{num_ranks}: Lightning would leave out batches of a loader passed to fit. Train "
            "with mdstorm.lightning.StreamingDataModule, which resumes in any world"
        )
