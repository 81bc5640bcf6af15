"""Find out how many batches a trainer has fetched and not trained on yet.

A loader that goes on from a state would leave them out, if they counted as delivered.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Mapping
from typing import Any

from mdstorm_backend.errors import StateMismatchError

_LOOPS_OF_LIGHTNING = ("lightning.pytorch.loops.fit_loop", "pytorch_lightning.loops.fit_loop")
_LOADERS_OF_RAY = "ray.train.torch.train_loop_utils"


class FetchedAhead:
    """Whether the last batch of a loader is still waiting in the hands of a trainer.

    Trainers keep it to themselves, so that it is looked for among the callers: where Ray Train
    begins an iteration, and where Lightning writes a checkpoint.
    """

    def __init__(self) -> None:
        #: The loader of Ray Train that has begun the last iteration, if one has.
        self._wrapper: weakref.ref[Any] | None = None

    def __reduce__(self) -> tuple[type[FetchedAhead], tuple[()]]:
        return FetchedAhead, ()  # copies are iterated by others

    @property
    def is_always(self) -> bool:
        """Whether the iteration is by one who always fetches ahead."""
        return self._wrapper is not None

    def note_begun(self) -> None:
        """Note who begins an iteration: the caller of the function that calls this one."""
        caller = sys._getframe(2).f_locals.get("self")
        wrappers = _classes("_WrappedDataLoader", _LOADERS_OF_RAY)
        self._wrapper = weakref.ref(caller) if isinstance(caller, wrappers) else None

    def has_one(self) -> bool:
        """Return whether the last batch waits, now that somebody asks for a state.

        Ray Train fetches every batch while the one before is used; Lightning does where there is no
        length, to know which is the last.
        """
        wrapper = None if self._wrapper is None else self._wrapper()
        if wrapper is not None:
            return wrapper.next_batch is not None
        fetcher = getattr(_calling_loop(), "_data_fetcher", None)
        return bool(getattr(fetcher, "batches", ()))


def refuse_other_world(state: object, num_ranks: int) -> None:
    """Refuse to let Lightning go on in another world with a loader that has a length.

    It counts batches from where the checkpoint was written, and takes the length of the epoch with
    which it begins for that of all: batches of this epoch or the next ones would be left out.

    Raises
    ------
    StateMismatchError
        If Lightning is loading a state of another number of ranks.
    """
    ours = state.get("mdstorm") if isinstance(state, Mapping) else None
    before = ours.get("world_size") if isinstance(ours, Mapping) else None
    if before not in (None, num_ranks) and _calling_loop() is not None:
        raise StateMismatchError(
            f"the checkpoint is of a world of size {before}, and this one is of size {num_ranks}: "
            "Lightning would leave out batches of a loader that is handed to fit. Train with "
            "mdstorm.lightning.StreamingDataModule, which goes on in any world"
        )


def _calling_loop() -> object:
    """Return the loop of Lightning's that is among the callers, or None."""
    loops = _classes("_FitLoop", *_LOOPS_OF_LIGHTNING)
    frame = sys._getframe(1) if loops else None
    while frame is not None:
        caller = frame.f_locals.get("self")
        if isinstance(caller, loops):
            return caller
        frame = frame.f_back
    return None


def _classes(name: str, *modules: str) -> tuple[type, ...]:
    """Return the classes of that name of modules that were imported."""
    found = (getattr(sys.modules.get(module), name, None) for module in modules)
    return tuple(class_ for class_ in found if class_ is not None)
