"""Raise KeyboardInterrupt in the main thread after a time, as Ctrl-C does, or at given moments."""

import _thread
import logging
import signal
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def interrupts(
    handing_over: Collection[str] = (), timer: int = signal.ITIMER_REAL
) -> Iterator[Callable[[float], None]]:
    """Yield a function that raises KeyboardInterrupt after some seconds, or never for 0.

    Parameters
    ----------
    handing_over : collection of str
        Names of functions that hand a batch over: an interrupt is delayed until they have returned.
    timer : int
        The clock, which determines the signal.
    """
    delayed_in = {*handing_over, "interrupt"}  # or in the handler itself

    def interrupt(number: int, frame: Any) -> None:
        if frame is not None and (
            frame.f_code.co_name in delayed_in or in_logging(frame) or _is_reporting(frame)
        ):
            signal.setitimer(timer, 1e-5)
            return
        raise KeyboardInterrupt

    def arm(seconds: float) -> None:
        signal.setitimer(timer, seconds)

    used = signal.SIGALRM if timer == signal.ITIMER_REAL else signal.SIGVTALRM
    remaining, _ = signal.setitimer(timer, 0)  # seconds until the time limit of the test
    handler = signal.signal(used, interrupt)
    try:
        yield arm
    finally:
        signal.setitimer(timer, 0)
        signal.signal(used, handler)
        signal.setitimer(timer, remaining)


def in_logging(frame: Any) -> bool:
    """Whether a function of `logging` runs, in which an exception may leave all loggers locked.

    Later calls in other threads would wait for it forever. Python 3.13 no longer has the gap.
    """
    return bool(frame.f_code.co_filename == logging.__file__)


def _is_reporting(frame: Any) -> bool:
    """Whether pytest's hook for errors of finalizers runs, which must not be interrupted."""
    while frame is not None and frame.f_code.co_name != "unraisable_hook":
        frame = frame.f_back
    return frame is not None


class CtrlC:
    """Its negation interrupts the main thread at the next call of a function or return to C.

    A function such as `os.kill` would raise the interrupt before it returns.
    """

    __neg__ = staticmethod(_thread.interrupt_main)
