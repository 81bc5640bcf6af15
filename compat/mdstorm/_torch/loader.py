"""The base class of the loaders in `mdstorm.pytorch`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import Any

from mdstorm._readers.arguments import check_reader, rows_of_batch
from mdstorm._readers.passes import ReaderPasses, can_pass_over, can_restart, is_at_a_start
from mdstorm._readers.reader import DatasetReader
from mdstorm.errors import StateMismatchError, UnsupportedArgumentError
from mdstorm_backend.base import OwnContext, PassThreads, check_integer
from mdstorm_backend.display import Described, Description
from mdstorm_backend.loaders import Convert, Statistics, describe_data

_logger = logging.getLogger(__name__)


class LoaderBase:
    """Passes over ``self.reader``, which a subclass sets, by its method ``_iter_impl``.

    A second pass resets the reader, as does a first one over a reader that is at its end. The items
    of the reader are taken one after the other, so one pass has to end before the next one begins.
    """

    reader: Any

    def __init__(self) -> None:
        #: None before the first pass, True within one.
        self._in_iter: bool | None = None
        self._error: Exception | None = None

    def __iter__(self) -> Iterator[Any]:
        if self._error is not None:
            raise RuntimeError(
                "Cannot start a new iteration because last time iteration failed with error "
                f"{self._error!r}. Open a new reader, and create a loader over it"
            )
        if self._in_iter:
            raise RuntimeError(
                "You must finish a full pass of Petastorm DataLoader before making another pass "
                "from the beginning: both would take the items of one reader. Open a reader, and "
                "create a loader, for each pass"
            )
        if self._in_iter is not None or getattr(self.reader, "last_row_consumed", False):
            if can_restart(self.reader):
                self.reader._mdstorm_restart()
            else:
                self.reader.reset()
            _logger.info(
                "Start a new pass of Petastorm DataLoader, reset underlying Petastorm reader to "
                "position 0."
            )
        self._in_iter = True
        try:
            yield from self._iter_impl()
        except Exception as error:
            self._error = error
            raise
        finally:
            self._in_iter = False

    def _iter_impl(self) -> Iterator[Any]:
        """Yield the batches of one pass."""
        raise NotImplementedError(f"{type(self).__name__} must define _iter_impl")


class ReaderLoader(Described, OwnContext, LoaderBase):
    """A loader over a reader: in whole blocks where it is one of ours.

    Parameters
    ----------
    reader : Reader
        What is read. Any object with Petastorm's ``Reader`` interface.
    batch_size : int or None
        Rows of a batch; None, 0 or less: all rows of all epochs.
    shuffling_queue_capacity : int or None
        Rows that are shuffled together.
    """

    def __init__(
        self, reader: Any, batch_size: int | None, shuffling_queue_capacity: int | None
    ) -> None:
        super().__init__()
        check_reader(reader)
        check_integer("batch_size", batch_size)
        check_integer("shuffling_queue_capacity", shuffling_queue_capacity)
        self.reader = reader
        self.batch_size = batch_size
        self.shuffling_queue_capacity = shuffling_queue_capacity
        self._mdstorm_passes: ReaderPasses | None = None
        self._mdstorm_threads = PassThreads()

    def _mdstorm_description(self, *, full: bool) -> Description:
        found, batch = describe_data(self.reader, full=full), f"{self.batch_size}"
        return replace(
            found,
            line=[*found.line, f"batch_size={batch}"],
            facts=[*found.facts, ("batch_size", batch)],
        )

    def __iter__(self) -> Iterator[Any]:
        return self._mdstorm_threads.follow(self._mdstorm_batches())

    def _mdstorm_leave(self, kind: type[BaseException] | None) -> None:
        self._mdstorm_threads.end()
        self.reader.stop()
        self.reader.join()

    def set_epoch(self, epoch: int) -> None:
        """Say with which epoch the next pass begins, see the reader's ``set_epoch``."""
        self.reader.set_epoch(epoch)

    def statistics(self, *, last_pass: bool = False) -> Statistics:
        """Return what was delivered so far, and waited for: see the reader's ``statistics``.

        Where items of the reader are taken one after the other, those are what is delivered.

        Raises
        ------
        UnsupportedArgumentError
            If the reader is of another kind, which counts nothing.
        """
        if not isinstance(self.reader, DatasetReader):
            raise UnsupportedArgumentError(
                f"{type(self.reader).__name__} has no statistics: create the loader over a reader "
                "from make_reader or make_batch_reader"
            )
        return self.reader.statistics(last_pass=last_pass)

    def state_dict(self) -> dict[str, Any]:
        """Return where the pass stands that was advanced last, for `load_state_dict`.

        Raises
        ------
        StateMismatchError
            If nobody knows: over readers of another kind, of n-grams, or that were already begun.
        """
        return self._mdstorm_resumable().state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next pass go on where `state` was taken from an equal loader.

        Raises
        ------
        StateMismatchError
            If it was taken from another dataset or another way of reading, or is not a state, or as
            `state_dict`.
        """
        self._mdstorm_resumable().load_state_dict(state)

    def _mdstorm_resumable(self) -> ReaderPasses:
        passes = self._mdstorm_own_passes()
        if passes is None:
            raise StateMismatchError(
                "this loader has no state, because it takes the items of its reader one by one. "
                "Create it over an unused reader from make_reader or make_batch_reader, without "
                "n-grams"
            )
        return passes

    def _mdstorm_batches(self) -> Generator[Any, None, None]:
        passes = self._mdstorm_own_passes()
        if passes is None:
            yield from LoaderBase.__iter__(self)
        else:
            yield from passes(self._mdstorm_of_blocks(passes))

    def _iter_impl(self) -> Iterator[Any]:
        """Yield batches made of the items of the reader."""
        size = self.batch_size
        if size and size > 0:
            return self._mdstorm_of_items(size)
        if getattr(self.reader, "num_epochs", 1) is None:
            rows_of_batch(size, num_epochs=None, dataset_size=0)  # refuses it
        return self._mdstorm_of_items(sys.maxsize)

    def _mdstorm_of_items(self, batch_size: int) -> Iterator[Any]:
        raise NotImplementedError

    def _mdstorm_of_blocks(self, passes: ReaderPasses) -> Convert:
        raise NotImplementedError

    def _mdstorm_own_passes(self) -> ReaderPasses | None:
        """Return the passes over a reader of ours; None where its items have to be taken.

        Those are the rest of a reader from which something was taken before, n-grams, and what a
        subclass makes of items.
        """
        is_over_rows = can_pass_over(self.reader) and not self._mdstorm_has_own_parts()
        begins_anew = self._in_iter is False or (is_over_rows and is_at_a_start(self.reader))
        if self._mdstorm_passes is None and is_over_rows and begins_anew:
            self._mdstorm_passes = ReaderPasses(
                self.reader, self.batch_size, self._mdstorm_queue(), threads=self._mdstorm_threads
            )
        return self._mdstorm_passes

    def _mdstorm_has_own_parts(self) -> bool:
        """Whether a subclass makes its batches itself, of the items of the reader."""
        return self._mdstorm_overrides(ReaderLoader, "_iter_impl")

    def _mdstorm_overrides(self, base: type, name: str) -> bool:
        return getattr(type(self), name) is not getattr(base, name)

    def _mdstorm_queue(self) -> int:
        return max(self.shuffling_queue_capacity or 0, 0)
