"""Hooks into Lightning: which batches it uses, and how it loads and saves positions."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType, SimpleNamespace
from typing import Any

from mdstorm_backend.base import warn_user, wrap
from mdstorm_backend.errors import StateMismatchError

_logger = logging.getLogger(__name__)
#: The current iteration of each of Lightning's fetchers.
_in_lightning: weakref.WeakKeyDictionary[Any, _Fetching] = weakref.WeakKeyDictionary()


def report_use_in_lightning(module: ModuleType) -> None:
    """Record which batches Lightning trains on, and which ones it has only fetched.

    If a loader has no length, Lightning fetches one batch ahead to know which one is the last. It
    may also save a checkpoint while it is training on a batch, as `OnExceptionCheckpoint` does, and
    later trains on that batch again. If these batches counted as read, a loader that resumes from a
    state would skip them.

    A loader treats an iteration that is left after one batch as a peek, and begins the next one at
    the same position. Lightning leaves an iteration after one batch with ``limit_train_batches=1``,
    or if a resumed epoch has only one batch left, because it counts batches and does not request
    the end.

    Lightning only requests batches and the state from a loader, and has no API to report how it
    uses them. So this wraps the iteration of the base class of all fetchers, and
    `count_in_lightning` wraps the beginning of an epoch. Tested with Lightning 2.6.6, in both of
    its packages.
    """
    fetcher = getattr(module, "_DataFetcher", None)
    wrap(fetcher, "__iter__", _beginning_in_lightning)
    wrap(fetcher, "__next__", _continuing_in_lightning)  # `__next__` also restarts shorter loaders


def count_in_lightning(module: ModuleType) -> None:
    """Tell the iterations of Lightning's fetchers how many batches have been used for training.

    A fetcher does not know which loop it belongs to. So this wraps the method with which the loop
    begins an epoch. Tested with Lightning 2.6.6, in both of its packages.
    """
    wrap(getattr(module, "_TrainingEpochLoop", None), "on_run_start", _training_in_lightning)


class _Fetching:
    """One iteration of a Lightning fetcher, and how many of its batches have not been used yet.

    Batches that the fetcher has fetched ahead are unused. During training, so is the batch that is
    being trained on. A ``training_step`` that takes ``dataloader_iter`` fetches batches itself, and
    uses them as it takes them.
    """

    def __init__(self, fetcher: Any) -> None:
        from mdstorm_backend.loaders import Consumer

        fetches_ahead = hasattr(fetcher, "batches")
        self.consumer = Consumer(self._count_unused if fetches_ahead else None, peek=0)
        self._fetcher = weakref.ref(fetcher)
        #: Number of batches that the fetcher has fetched.
        self.num_fetched = 0
        #: Lightning's batch counter, which is None until training starts, and the counter's value
        #: before this iteration.
        self._progress: Any = None
        self._trained_before = 0

    def train(self, progress: Any) -> None:
        """Record that Lightning trains on these batches, and counts them in `progress`."""
        self._progress, self._trained_before = progress, progress.processed

    def _count_unused(self) -> int:
        if self._progress is None:
            return len(getattr(self._fetcher(), "batches", ()))
        trained: int = self._progress.processed - self._trained_before
        return self.num_fetched - trained


def _fetching(fetcher: Any) -> _Fetching:
    """Return a fetcher's iteration, or a new one if mdstorm was loaded during the iteration."""
    if (known := _in_lightning.get(fetcher)) is None:
        known = _in_lightning[fetcher] = _Fetching(fetcher)
    return known


def _beginning_in_lightning(iterate: Callable[[Any], Any]) -> Any:
    def begin(self: Any) -> Any:
        fetching = _in_lightning[self] = _Fetching(self)
        with fetching.consumer.requesting():
            return iterate(self)

    return begin


def _continuing_in_lightning(fetch: Callable[[Any], Any]) -> Any:
    def fetch_and_count(self: Any) -> Any:
        fetching = _fetching(self)
        with fetching.consumer.requesting():
            batch = fetch(self)
        fetching.num_fetched += 1
        return batch

    return fetch_and_count


def _training_in_lightning(start: Callable[[Any, Any], None]) -> Any:
    def on_run_start(self: Any, data_fetcher: Any) -> None:
        start(self, data_fetcher)
        _fetching(data_fetcher).train(self.batch_progress.total)

    return on_run_start


def restore_in_lightning(module: ModuleType) -> None:
    """Load loader states in Lightning, and raise an error if it would skip batches.

    Lightning loads loader states only if a checkpoint was written within an epoch. After a
    checkpoint at the end of an epoch, its loaders start over, and only samplers are passed the
    epoch, so the first epochs would be repeated. Within an epoch, Lightning counts batches from
    where the checkpoint was written, and assumes that all epochs are as long as the resumed one. If
    the world size has changed, the loader's length is the number of remaining batches, so batches
    of this or later epochs would be skipped. After a checkpoint that was saved in
    ``on_train_epoch_start``, Lightning mistakes the previous epoch's batches for those of the new
    epoch, which it leaves after one batch. With ``max_steps``, it does so after every checkpoint
    that was saved between epochs.

    Loaders cannot tell Lightning that their states are also valid between epochs, or that a length
    is the length of one epoch. So this wraps ``_FitLoop._load_combined_loader_states``.

    Lightning does not load states into loaders that it requested before it reads the checkpoint's
    loops. It does that for a model whose ``configure_optimizers`` or ``setup`` reads
    ``trainer.estimated_stepping_batches`` (its issue 20550). It has no hook between that moment and
    the first batch. So this also wraps ``_FitLoop.on_load_checkpoint``. Tested with Lightning
    2.6.6, in both of its packages.
    """
    loop = getattr(module, "_FitLoop", None)
    wrap(loop, "_load_combined_loader_states", _restoring)
    wrap(loop, "on_load_checkpoint", _requesting_again)


def _restoring(load: Callable[[Any], None]) -> Any:
    def load_states(self: Any) -> None:
        own, has_ours = list(_own_states(self)), any(map(_is_ours, _loaders(self)))
        epochs, batches = self.epoch_progress.current, self.epoch_loop.batch_progress
        # If max_steps ended the run within an epoch, the epoch counts as processed.
        is_over = epochs.ready == epochs.started == epochs.processed and batches.is_last_batch
        if is_over and has_ours:
            # Lightning does this itself, except with max_steps.
            self._restarting = self.epoch_loop.restarting = False
        # After a checkpoint during an epoch's last step, Lightning also restarts within the epoch.
        is_in_training = batches.current.ready > batches.current.processed
        is_within = self.restarting and (is_in_training or not batches.is_last_batch)
        if is_within:
            for loader, state in own:
                _refuse_other_world(loader, state)
        if epochs.ready > epochs.started and has_ours:
            # The checkpoint was saved in on_train_epoch_start: `batches` still has the counts of
            # the previous epoch.
            batches.reset_on_run()
        if not self.restarting:  # loaders made for later epochs have no states to load
            self._combined_loader_states_to_load = []
        load(self)
        if not is_within:
            for loader, state in own:
                # The epoch was left early, as with limit_train_batches: skip its remaining rows.
                if load_position(loader, state) and state["sample_in_epoch"]:
                    loader.set_epoch(state["epoch"] + 1)

    return load_states


def _requesting_again(load: Callable[[Any, Any], None]) -> Any:
    def on_load_checkpoint(self: Any, state_dict: Any) -> None:
        load(self, state_dict)
        if self._combined_loader is not None and self._combined_loader_states_to_load:
            # Make Lightning request the loaders again, and load their states.
            self._combined_loader = None

    return on_load_checkpoint


def _own_states(loop: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each of our loaders that a loop trains with, and the state to load into it."""
    stateful = [loader for loader in _loaders(loop) if hasattr(loader, "load_state_dict")]
    for loader, state in zip(stateful, loop._combined_loader_states_to_load, strict=False):
        if _is_ours(loader) and state is not None:
            yield loader, state


def _loaders(loop: Any) -> list[Any]:
    return [] if loop._combined_loader is None else list(loop._combined_loader.flattened)


def _is_ours(loader: Any) -> bool:
    return hasattr(loader, "_mdstorm_loop")


def load_position(loader: Any, state: Any) -> bool:
    """Load a checkpoint's state into a loader; if it does not fit, warn and return False.

    This is not an error, because training may continue with different data after an epoch.
    """
    try:
        loader.load_state_dict(state)
    except StateMismatchError as error:
        _logger.warning(
            "the position in the checkpoint does not match the training data; reading starts from "
            "the beginning: %s",
            error,
        )
        return False
    return True


def _refuse_other_world(loader: Any, state: object) -> None:
    ours = state.get("mdstorm") if isinstance(state, Mapping) else None
    before = ours.get("world_size") if isinstance(ours, Mapping) else None
    reading = loader._mdstorm_loop()
    if reading is None:  # PyTorch makes the batches
        return
    num_ranks = reading.options.in_world().order.world_size
    if before not in (None, num_ranks) and _has_length(loader):
        raise StateMismatchError(
            f"the checkpoint was written with world size {before}, but the world size is now "
            f"{num_ranks}: Lightning would skip batches of a loader passed to fit. Train with "
            "mdstorm.lightning.StreamingDataModule, which can resume with any world size"
        )


def _has_length(loader: Any) -> bool:
    try:
        len(loader)
    except TypeError:
        return False
    return True


def count_steps_in_lightning(module: ModuleType) -> None:
    """Let data modules count the steps of a run that resumes on a different number of ranks.

    Lightning multiplies the length of the training data by the number of epochs. After a resume on
    a different number of ranks, the data module hides that length, because the first epoch is
    shorter than the others. Lightning has no API for the number of steps, so this wraps
    ``Trainer.estimated_stepping_batches``. Tested with Lightning 2.6.6, in both of its packages.
    """
    trainer = getattr(module, "Trainer", None)
    found = getattr(trainer, "estimated_stepping_batches", None)
    if trainer is not None and isinstance(found, property):
        getter = SimpleNamespace(get=found.fget)
        wrap(getter, "get", _counting_steps)
        trainer.estimated_stepping_batches = property(getter.get)


def _counting_steps(estimate: Callable[[Any], Any]) -> Any:
    def estimated_stepping_batches(self: Any) -> Any:
        estimated = estimate(self)
        count_steps = getattr(getattr(self, "datamodule", None), "mdstorm_count_steps", None)
        is_known = self.num_training_batches != float("inf") or self.max_epochs == -1
        if is_known or count_steps is None or (steps := count_steps()) is None:
            return estimated
        return steps if self.max_steps == -1 else min(steps, self.max_steps)

    return estimated_stepping_batches


def save_without_positions(module: ModuleType) -> None:
    """Let Lightning write checkpoints even if a loader's position is not known.

    Loaders over weighted, n-gram and partly read readers have state methods that raise. Lightning
    saves the state of any loader that has these methods, and a loader cannot opt out. So this wraps
    ``CombinedLoader._state_dicts``. Tested with Lightning 2.6.6, in both of its packages.
    """
    wrap(getattr(module, "CombinedLoader", None), "_state_dicts", _saving)


def _saving(save: Callable[[Any], list[Any]]) -> Any:
    def state_dicts(self: Any) -> list[Any]:
        try:
            return save(self)
        except StateMismatchError as error:
            warn_user(
                "Lightning's checkpoint does not contain the position in the training data, so a "
                f"resumed epoch begins with its first batch: {error}"
            )
            return []

    return state_dicts
