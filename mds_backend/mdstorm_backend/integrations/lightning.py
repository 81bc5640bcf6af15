"""Give Lightning's loaders the states that they need, and refuse those with which it loses batches.

Lightning loads the states of loaders only where a checkpoint was written within an epoch. From its
end it goes on with loaders that begin anew, and tells samplers alone which epoch it is, so that the
first epochs would come again. Within an epoch it counts batches from where the checkpoint was
written, and takes the length of the epoch with which it begins for that of all. In another world
that is what was left of an epoch, so that batches of this one or the next ones would be left out.

Loaders have no contract to say that their states hold between epochs as well, nor that a length is
that of one epoch. So this wraps ``_FitLoop._load_combined_loader_states``. Tried with Lightning
2.6.6, in both of its packages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from types import ModuleType
from typing import Any

from mdstorm_backend.base import wrap
from mdstorm_backend.errors import StateMismatchError


def put_in(module: ModuleType) -> None:
    """Wrap what loads the states of loaders."""
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
