"""Take items one by one from the passes of a runner, past errors, Ctrl-C and forks."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from typing import Any

from mdstorm_backend.loaders.reader_options import ReaderOptions
from mdstorm_backend.loaders.runner import Deliver, PassRunner


class ItemCursor:
    """A place in passes that outlives interruptions.

    It is for one thread at a time: its owner has the lock.

    Where a generator would be at its end, after Ctrl-C or in a fork, the cursor goes on with the
    next item. An error is raised again by every call, until `restart`.

    Parameters
    ----------
    runner : PassRunner
        Runs the passes, of this cursor alone.
    deliver : callable
        Makes the batches of a stretch.
    """

    def __init__(self, runner: PassRunner, deliver: Deliver) -> None:
        self._runner = runner
        self._deliver = deliver
        #: What is being delivered, and in which process; None between passes.
        self._items: Generator[Any, None, None] | None = None
        self._process = 0
        self._is_over = False
        self._failure: Exception | None = None

    @property
    def options(self) -> ReaderOptions:
        """What is read, and how: a state that was loaded may have another seed."""
        return self._runner.schedule.options

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
            self._items = self._runner.run(self._deliver)
            self._process = os.getpid()
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
        self._runner.restart()
        self._failure, self._is_over = None, False
        self.end()

    def end(self) -> None:
        """End the threads that read ahead."""
        items, self._items = self._items, None
        if items is not None:
            items.close()
        self._runner.threads.wait()

    def set_epoch(self, epoch: int) -> None:
        """Say with which epoch the next pass begins.

        Raises
        ------
        InvalidArgumentError
            If it is not an integer of at least 0.
        """
        self._runner.schedule.next_epoch = epoch

    def state_dict(self) -> dict[str, Any]:
        """Return what `load_state_dict` needs to go on with the next item."""
        return self._runner.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where a state was taken.

        Raises
        ------
        StateMismatchError
            If it was taken from another dataset or another way of reading, or is not a state.
        """
        self._runner.load_state_dict(state)
        self._failure, self._is_over = None, False
        self.end()

    def _go_on(self) -> None:
        """Read on from here, where reading was cut off."""
        state = self.state_dict()
        self.load_state_dict(state)
        # Of a pass whose last item was delivered the state says what comes after its end.
        self._is_over = state["mdstorm"].get("finished", False)
