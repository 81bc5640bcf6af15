"""States of a `StreamingDataset` after numbers of samples that PyTorch or a user has counted."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, lcm
from typing import Any

from torch.utils.data import get_worker_info

from mdstorm_backend.base.checks import check_flag, check_integer
from mdstorm_backend.errors import StateMismatchError
from mdstorm_backend.loaders.state import write_state
from mdstorm_backend.loaders.torch.opened_dataset import OpenedDataset
from mdstorm_backend.loaders.torch.sample_iteration import plan_of_samples
from mdstorm_backend.order import Plan, Position


def state_dict(
    opened: OpenedDataset, num_samples: int | None = None, from_beginning: bool = True
) -> dict[str, Any]:
    """Return the reading position: see `StreamingDataset.state_dict`."""
    check_integer("num_samples", num_samples, lowest=0)
    check_flag("from_beginning", from_beginning)
    if num_samples is not None:
        count = int(num_samples)  # a NumPy integer could not be saved as JSON

        def reached(plan: Plan) -> Position:
            samples, whole = count // opened.num_ranks, opened.samples_at_a_time
            if opened.epochs.num_joined > 1 and samples < plan.rows_per_epoch:
                _check_whole(opened, samples, whole)
            return plan.reached(count, from_beginning=from_beginning)

        return _state_at(opened, reached, count)
    samples = opened.samples
    if get_worker_info() is None:
        if samples is None and (opened.latest is not None or opened.epochs.num_joined):
            return _state_of_latest(opened, 0)
        if samples is None or samples.yielded == samples.replaced_after:
            return opened.epochs.next_state(opened.options)
        return _state_of_latest(opened, samples.yielded, is_over=samples.is_over)
    if samples is None or samples.worker.group is None:  # inherited from the parent
        raise StateMismatchError(
            "this worker process has not started reading, so it has no position: request the "
            "state once an iteration over the dataset has started in this process"
        )
    return samples.state_dict()


def state_of_rank(
    opened: OpenedDataset,
    samples: int,
    start: Position | None = None,
    *,
    is_over: bool = False,
    batch_size: int | None = None,
    num_workers: int = 0,
) -> dict[str, Any]:
    """Return the state after `samples` samples on each rank.

    In the last step of a pass, some ranks may have fewer samples than others. Their states are
    not at the end until it is requested, because other ranks may still load them.

    Parameters
    ----------
    samples : int
        Number of samples since the iteration began.
    start : Position, optional
        Where the iteration began; by default, the beginning of its latest epoch.
    is_over : bool
        Whether the end of the iteration was requested.
    batch_size : int, optional
        Batch size of the loader; by default, the dataset's batch size.
    num_workers : int
        Number of worker processes that the loader starts.

    Raises
    ------
    StateMismatchError
        If worker processes may have yielded other samples than the first ones in the plan.
    """
    size = opened.samples_at_a_time
    num_workers = max(num_workers, opened.epochs.num_joined)
    #: After a multiple of this many samples, all workers have yielded equal numbers of batches.
    even = lcm(size, batch_size or size) * num_workers if num_workers > 1 else 1
    whole = even if batch_size not in (None, size) else min(size, even)

    def reached(plan: Plan) -> Position:
        left = samples
        while (following := plan.following()) is not None:
            batches = plan.num_batches() or 0
            if left <= batches and not is_over:
                break
            if batches % even and not is_over:
                raise StateMismatchError(
                    f"this rank has {batches} samples of an epoch, and {num_workers} worker "
                    f"processes cannot share them evenly in batches of {size}. Some begin the "
                    "next epoch before others, so a number of samples does not determine which "
                    "ones were read: pass num_epochs=1 and iterate once for each epoch, or "
                    "read with num_workers=0"
                )
            left, plan = left - batches, following
        is_within = following is not None or left < (plan.num_batches() or inf)
        if is_within and not is_over:
            _check_whole(opened, left, whole)
        return plan.end() if is_over else plan.reached(left * opened.num_ranks)

    return _state_at(opened, reached, samples * opened.num_ranks, start)


def _state_at(
    opened: OpenedDataset,
    reached: Callable[[Plan], Position],
    num_samples: int,
    start: Position | None = None,
) -> dict[str, Any]:
    """Return the state at a position in a plan, after `num_samples` samples on all ranks.

    The plan begins at `start`, by default the beginning of the latest epoch, and its batches
    are single samples. If a loader has several iterations, the latest epoch is the epoch of the
    iteration that was advanced last.
    """
    if start is None and opened.latest is not None:
        start = opened.latest.segment_start
    plan = plan_of_samples(opened.options, opened.epochs, start)
    if plan.counts_own_rows:
        return _state_of_latest(opened, num_samples, start)
    position = reached(plan)
    if opened.latest is not None and opened.latest.is_at(position):
        return opened.latest.state_dict(is_within=True)
    return write_state(opened.options.in_world(), position)


def _state_of_latest(
    opened: OpenedDataset, samples: int, start: Position | None = None, *, is_over: bool = False
) -> dict[str, Any]:
    """Return the latest iteration's state, after `samples` samples if it iterates over samples.

    Samples are those of each rank, counted from `start`, by default the beginning of the latest
    epoch. The last step may leave none for this rank, so the end counts only once it was
    requested.
    """
    if opened.epochs.num_joined:
        raise StateMismatchError(
            "the samples are read in worker processes, so the number of yielded samples is "
            "not known here: use a StreamingDataLoader and its state_dict(), or num_workers=0"
        )
    if opened.latest is not None:
        return opened.latest.state_dict()
    plan = plan_of_samples(opened.options, opened.epochs, start)
    if is_over:
        position = plan.end()
    else:
        position = plan.reached(samples * opened.num_ranks) if samples else plan.resolved_start
    return write_state(opened.options.in_world(), position)


def _check_whole(opened: OpenedDataset, samples: int, whole: int) -> None:
    """Raise StateMismatchError if `samples` samples end within a batch of a worker process."""
    if samples % whole:
        raise StateMismatchError(
            f"worker processes read {opened.samples_at_a_time} samples at a time, and "
            f"{samples} samples on this rank are not a whole number of such reads by all "
            "workers, so it is not known which samples were yielded: pass the batch_size of "
            "the DataLoader to the dataset"
        )
