"""Raise KeyboardInterrupt in the main thread, as Ctrl-C does, after a delay or at a given point."""

import _thread
import logging
import signal
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from itertools import count
from multiprocessing import queues
from typing import Any


@contextmanager
def interrupts(
    handing_over: Collection[str] = (), timer: int = signal.ITIMER_REAL
) -> Iterator[Callable[[float], None]]:
    """Yield a function that raises KeyboardInterrupt after some seconds, or never if given 0.

    Parameters
    ----------
    handing_over : collection of str
        Names of functions that hand over a batch. Interrupts are delayed until they return.
    timer : int
        The interval timer, which determines the signal.
    """
    interrupt = delayed_interrupt(handing_over, timer)

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


def delayed_interrupt(
    handing_over: Collection[str], timer: int = signal.ITIMER_REAL
) -> Callable[[int, Any], None]:
    """Return a signal handler that raises KeyboardInterrupt, but not in functions that must finish.

    These are functions named in `handing_over`, which hand over a batch, logging, putting an item
    into a queue of processes, and pytest's own hook. If one of them is running, `timer` sends the
    timer's signal later.
    """
    delayed_in = {*handing_over, "interrupt"}  # "interrupt" is the handler itself

    def interrupt(number: int, frame: Any) -> None:
        if frame is not None and (
            frame.f_code.co_name in delayed_in
            or _in_logging(frame)
            or _is_in(frame, "put", queues.__file__)
            or _is_in(frame, "unraisable_hook")
        ):
            # Long enough for the function to advance, even on a busy machine.
            signal.setitimer(timer, 1e-3)
            return
        raise KeyboardInterrupt

    return interrupt


@contextmanager
def interrupted_at(number: int, *files: str) -> Iterator[None]:
    """Raise KeyboardInterrupt before the n-th line executed in these files."""
    lines = count(1)

    def trace(frame: Any, event: str, _: Any) -> Any:
        if frame.f_code.co_filename not in files:
            return None
        if event == "line" and next(lines) == number:
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def _in_logging(frame: Any) -> bool:
    """Whether the frame is in `logging`, where an exception could leave all loggers locked.

    Later calls in other threads would then block forever. Python 3.13 no longer has this gap.
    """
    return bool(frame.f_code.co_filename == logging.__file__)


def _is_in(frame: Any, name: str, file: str = "") -> bool:
    """Whether a function that must not be interrupted is running in this frame or calls it.

    This is pytest's hook for errors in finalizers, and `put` of the queues in which PyTorch sends
    numbers to worker processes: an exception just after it has acquired its lock, but before its
    ``with`` block begins, would leave the queue locked, and its next `put` would wait forever.
    """
    while frame is not None:
        code = frame.f_code
        if code.co_name == name and code.co_filename.endswith(file):
            return True
        frame = frame.f_back
    return False


class CtrlC:
    """Negating an instance interrupts the main thread at its next function call or loop iteration.

    A function such as `os.kill` would raise the interrupt before it returns.
    """

    __neg__ = staticmethod(_thread.interrupt_main)
