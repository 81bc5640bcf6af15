"""Where a reader stands: what it delivers next, and the state that says so."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from itertools import islice
from typing import Any

from mdstorm._readers.items import MakeItems
from mdstorm.errors import StateMismatchError
from mdstorm_backend.base.integers import is_integer
from mdstorm_backend.base.pass_threads import PassThreads
from mdstorm_backend.format.batch import Batch
from mdstorm_backend.loaders.reader_options import ReaderOptions
from mdstorm_backend.loaders.reading import Batching, Pass, Reading

__all__ = ["ReaderCursor"]

#: Where a state says how many items of the share that comes next were delivered.
_ITEMS = "items"


class ReaderCursor:
    """The place of a reader in its passes over the data. A reader lets one thread in at a time.

    Parameters
    ----------
    options : ReaderOptions
        What is read, and how.
    make_items : callable
        Makes the items of a shard's share of the rows, see `items_of`.
    batched : bool
        Whether a share is one item.

    Raises
    ------
    NoDataAvailableError
        If there are fewer rows than ranks.
    """

    def __init__(self, options: ReaderOptions, make_items: MakeItems, *, batched: bool) -> None:
        self._make_items = make_items
        self._batched = batched
        self._reading: Reading = options.reading()
        self._batching = Batching(max([*options.dataset.shard_sizes, 1]), by_shard=True)
        self._pass: Pass = self._reading.first_pass(self._batching)
        _ = self._reading.rows_per_epoch  # refuses more ranks than rows
        #: Items of the share that is being delivered, where the pass stands before it.
        self._delivered = 0
        #: What is being delivered, and in which process; None between passes.
        self._items: Generator[Any, None, None] | None = None
        self._process = 0
        self._threads = PassThreads()
        self._is_over = False
        self._failure: Exception | None = None

    @property
    def options(self) -> ReaderOptions:
        """What is read, and how: a state that was loaded may have another seed."""
        return self._reading.options

    def take(self) -> Any:
        """Return the next item.

        Raises
        ------
        StopIteration
            If all were delivered, until `restart`. An error is raised again in the same way.
        """
        if self._failure is not None:
            raise self._failure
        if self._items is not None and self._process != os.getpid():
            self._go_on()  # in a fork, where the threads are missing that read ahead
        if self._is_over:
            raise StopIteration
        if self._items is None:
            self._items, self._process = self._read(), os.getpid()
        try:
            return next(self._items)
        except StopIteration:
            self._items, self._is_over = None, True
            raise
        except Exception as error:
            self._failure = error  # or the next call would take it for the end of the data
            raise
        except BaseException:  # such as Ctrl-C, after which a person may go on
            self._go_on()
            raise

    def restart(self) -> None:
        """Let the next pass begin."""
        self._delivered, self._failure, self._is_over = 0, None, False
        self.end()

    def end(self) -> None:
        """End the threads that read ahead."""
        items, self._items = self._items, None
        if items is not None:
            items.close()
        self._threads.wait()

    def state_dict(self) -> dict[str, Any]:
        """Return what `load_state_dict` needs to go on with the next item."""
        state = self._pass.state_dict()
        if self._delivered:
            state["mdstorm"] = {**state["mdstorm"], _ITEMS: self._delivered}
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where a state was taken.

        Raises
        ------
        StateMismatchError
            If it was taken from another dataset or another way of reading, or is no state.
        """
        reading, pass_ = self._reading.resumed(state, self._batching)
        delivered = state["mdstorm"].get(_ITEMS, 0)
        if not is_integer(delivered) or delivered < 0:
            raise StateMismatchError(
                f"the state cannot be continued: {_ITEMS!r} has to be an integer from 0 on, found "
                f"{delivered!r}. Load it as state_dict() returned it"
            )
        self._reading, self._pass = reading, pass_
        self.restart()
        self._delivered = int(delivered)

    def _go_on(self) -> None:
        """Read on from here, where reading was cut off."""
        state = self.state_dict()
        self.load_state_dict(state)
        # Of a pass whose last item was delivered the state says what comes after its end.
        self._is_over = state["mdstorm"].get("finished", False)

    def _read(self) -> Generator[Any, None, None]:
        current = self._pass = self._pass.following()
        with self._threads.closing(_shares(current)) as shares:
            for batch, mark, size in shares:
                items = self._make_items(batch) if size else iter(())
                if self._batched:
                    made = list(items)  # or one that is not made would count as delivered
                    current.advance(mark, size)
                    yield from made
                    continue
                for item in islice(items, self._delivered, None):
                    self._delivered += 1
                    yield item
                current.advance(mark, size)
                self._delivered = 0
        current.finish()


def _shares(current: Pass) -> Generator[tuple[Batch, Any, int], None, None]:
    """Yield what a pass still has to go through: batches, each with its mark and its rows."""
    for leg in current.legs():
        for block in leg.blocks():
            yield from zip(block.batches(), block.marks, block.sizes, strict=True)
