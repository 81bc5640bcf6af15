"""Run passes of a loader over a `DatasetReader`, in whole blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mdstorm._readers.arguments import rows_of_batch
from mdstorm._readers.reader import DatasetReader
from mdstorm_backend.base import PassThreads
from mdstorm_backend.loaders import Batching, Convert, PassRunner, Schedule
from mdstorm_backend.order import ExactOrder


def can_pass_over(reader: Any) -> bool:
    """Whether a reader is of ours, and delivers rows rather than what is made of several rows."""
    return isinstance(reader, DatasetReader) and not reader.ngram


def can_restart(reader: Any) -> bool:
    """Whether a reader is of ours, which begins anew also in the middle of its rows."""
    return isinstance(reader, DatasetReader)


def is_at_a_start(reader: DatasetReader) -> bool:
    """Whether nothing was taken from a reader, or everything."""
    return reader._mdstorm_untouched or reader.last_row_consumed


class ReaderPasses:
    """Complete passes over what a reader reads, each independent of the others.

    Parameters
    ----------
    reader : DatasetReader
        Says what is read and how; its own place is not moved.
    batch_size : int or None
        Rows of a batch; None, 0 or less: all rows of all epochs.
    window : int
        Rows that are shuffled together at least; 0 for what the reader says.
    by_shard : bool
        Make a batch of each shard's share of the rows instead.
    threads : PassThreads, optional
        Waits for the threads of the passes.
    """

    def __init__(
        self,
        reader: DatasetReader,
        batch_size: int | None,
        window: int = 0,
        *,
        by_shard: bool = False,
        threads: PassThreads | None = None,
    ) -> None:
        self._reader = reader
        self.options = options = reader._mdstorm_options(window)
        if by_shard:
            rows = max([*options.dataset.shard_sizes, 1])
        else:
            rows = rows_of_batch(
                batch_size,
                num_epochs=options.num_epochs,
                dataset_size=len(options.dataset),
                is_elastic=not isinstance(options.order, ExactOrder),
                may_add_rows=options.transform is not None,
            )
        schedule = Schedule(options)
        schedule.next_epoch = reader._mdstorm_next_epoch
        self._times_set = reader._mdstorm_times_set
        self._runner = PassRunner(
            schedule,
            Batching(rows, by_shard=by_shard),
            threads or PassThreads(),
            check=reader._mdstorm_check_running,
            recorders=reader._mdstorm_recorders,
        )

    def __call__(self, convert: Convert) -> Iterator[Any]:
        """Go through a pass: the rest of one whose state was loaded, or a new one.

        Raises
        ------
        RuntimeError
            If the reader was stopped.
        """
        reader, runner = self._reader, self._runner
        reader._mdstorm_check_running()
        if self._times_set != reader._mdstorm_times_set:
            self._times_set = reader._mdstorm_times_set
            runner.schedule.next_epoch = reader._mdstorm_next_epoch
        reader._mdstorm_count_pass()
        yield from runner.run(lambda rest: runner.converted(rest.blocks(), convert))
        reader._mdstorm_mark_consumed()

    def state_dict(self) -> dict[str, Any]:
        """Return where the pass stands that was advanced last."""
        return self._runner.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next pass go on where a state was taken."""
        self._runner.load_state_dict(state)
