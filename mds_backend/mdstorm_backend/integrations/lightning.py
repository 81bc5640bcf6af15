"""Refuse states with which Lightning would leave out batches.

Lightning counts batches from where a checkpoint was written, and takes the length of the epoch with
which it begins for that of all. In another world that is what was left of an epoch, so that batches
of this epoch or the next ones would be left out. Loaders have no contract to say that their length
is that of one epoch, nor do they know who loads their states. So this wraps
``_FitLoop._load_combined_loader_states``. Tried with Lightning 2.6.6, in both of its packages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

from mdstorm_backend.drop_in import wrap
from mdstorm_backend.errors import StateMismatchError


def put_in(module: ModuleType) -> None:
    """Wrap what loads the states of loaders."""
    wrap(getattr(module, "_FitLoop", None), "_load_combined_loader_states", _checking)


def _checking(load: Callable[[Any], None]) -> Any:
    def load_states(self: Any) -> None:
        if self.restarting:
            for loader, state in _own_states(self):
                _refuse_other_world(loader, state)
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


def _refuse_other_world(loader: Any, state: object) -> None:
    ours = state.get("mdstorm") if isinstance(state, Mapping) else None
    before = ours.get("world_size") if isinstance(ours, Mapping) else None
    num_ranks = loader.dataset._mdstorm.count_ranks()
    if loader._mdstorm.has_length and before not in (None, num_ranks):
        raise StateMismatchError(
            f"the checkpoint is of a world of size {before}, and this one is of size {num_ranks}: "
            "Lightning would leave out batches of a loader that is handed to fit. Train with "
            "mdstorm.lightning.StreamingDataModule, which goes on in any world"
        )
