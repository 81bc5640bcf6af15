"""`ItemCursor`: takes a reader's rows or batches one at a time, and survives Ctrl-C and forks."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

from mdstorm_backend.loaders import CONSUMER, Loader, MakeBatches


class ItemCursor(Iterator[Any]):
    """An iterator over the items of passes that survives interruptions.

    Only one thread may use it at a time, so its owner holds a lock.

    After Ctrl-C or in a fork, where a generator would have ended, the cursor continues with the
    next item. Every call raises an earlier error again, until `restart`.

    Parameters
    ----------
    loader : Loader
        Runs only this cursor's passes. If it `splits` batches, they are iterables of items;
        otherwise each batch is one item.
    make_batches : callable
        Makes the batches of a `Segment`.
    """

    def __init__(self, loader: Loader, make_batches: MakeBatches) -> None:
        self.loader = loader
        self._make_batches = make_batches
        #: The batches of the current pass, and their items; between passes, the batches are None.
        self._batches: Generator[Any, None, None] | None = None
        self._items: Iterator[Any] = iter(())
        #: Id of the process that reads the batches.
        self._process = 0
        self._is_over = False
        self._failure: Exception | None = None

    def __next__(self) -> Any:
        """Return the next item.

        Raises
        ------
        StopIteration
            If all items of the pass have been returned, until `restart`. An error in an earlier
            call is also raised again until then.
        """
        if self._failure is not None:
            raise self._failure
        if self._batches is not None and self._process != os.getpid():
            self._resume()  # in a fork, which has no threads that read ahead
        if self._is_over:
            raise StopIteration
        if self._batches is None:
            splits, process = self.loader.splits, os.getpid()
            batches = self.loader.run(
                self._make_batches, by_item=splits, consumer=replace(CONSUMER.get(), peek=0)
            )
            items = chain.from_iterable(batches) if splits else batches
            # A single statement without calls, so that Ctrl-C, which takes effect after calls, does
            # not leave only some of these attributes set.
            self._batches, self._items, self._process = batches, items, process
        try:
            # next() is not called here, because Ctrl-C after the call would drop the item. See
            # `Iteration`.
            for item in self._items:
                return item
        except Exception as error:
            self._failure = error  # otherwise the next call would raise StopIteration
            self._batches.close()  # an error in an item does not end the generator
            raise
        except BaseException:  # such as Ctrl-C, after which a user may continue
            self._resume()
            raise
        self._batches, self._is_over = None, True
        raise StopIteration

    def give_back(self) -> None:
        """Put the latest item back, so that it is returned again as the next one."""
        self._resume(unused=1)

    def restart(self) -> None:
        """Begin the next pass with the next item."""
        self.loader.restart()
        self._begin_again()

    def _begin_again(self) -> None:
        self._failure, self._is_over = None, False
        self.end()

    def end(self) -> None:
        """End the threads that read ahead."""
        batches, self._batches, self._items = self._batches, None, iter(())
        if batches is not None:
            batches.close()
        self.loader.threads.wait()

    def state_dict(self) -> dict[str, Any]:
        """Return a state with which `load_state_dict` continues at the next item.

        Items that a framework has taken but not used yet are returned again.
        """
        # Within a pass, the next item is that pass's, even if an epoch was set.
        return self.loader.state_dict(is_within=self._batches is not None)

    def load_state_dict(self, state: object, skip_batches: int = 0) -> None:
        """Resume `skip_batches` batches after a state.

        Raises
        ------
        InvalidArgumentError
            If the pass has fewer batches left than are to be skipped.
        StateMismatchError
            If the state was taken from a different dataset or way of reading, or is not a state.
        """
        self.loader.load_state_dict(state, skip_batches)
        self._begin_again()

    def _resume(self, unused: int = 0) -> None:
        """Continue after an interruption, and return the latest `unused` items again."""
        state = self.loader.state_dict(unused=unused, is_within=True)
        self.load_state_dict(state)
        self.loader.epochs.is_loaded = False  # not by the user
        # A finished pass still has to end here, even though its state resumes with the next pass.
        self._is_over = state["mdstorm"].get("finished", False)
