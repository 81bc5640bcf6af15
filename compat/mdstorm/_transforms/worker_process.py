"""The main loop of a worker process: receive arguments, call one function, send its result."""

from __future__ import annotations

import os
import queue
import signal
import socket
import threading
import traceback
from collections.abc import Callable
from typing import Any

from mdstorm._transforms.function_pickles import pickle_function, unpickle_function
from mdstorm._transforms.worker_messages import receive, send


def main(file_descriptor: int) -> None:
    """Serve the process at the other end of a socket until it ends.

    The first message is the pickled function, each further one an argument for it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the reader decides what Ctrl-C ends
    channel = socket.socket(fileno=file_descriptor)
    try:
        # Before starting a second thread: some modules cannot be imported by two at once.
        call = _loaded(receive(channel))
    except (EOFError, OSError):
        return
    # A thread listens, so that this process ends with the other one even while a function runs.
    messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(channel, messages), daemon=True).start()
    while True:
        send(channel, _outcome(call, messages.get()))


def _listen(channel: socket.socket, messages: queue.SimpleQueue[Any]) -> None:
    try:
        while True:
            messages.put(receive(channel))
    except (EOFError, OSError):
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def _loaded(pickled: bytes) -> Callable[[Any], Any]:
    """Return the function; one that cannot be loaded here fails in its first call."""
    try:
        function: Callable[[Any], Any] = unpickle_function(pickled)
        return function
    except Exception as error:
        failure = error

        def fail(argument: Any) -> Any:
            raise failure

        return fail


def _outcome(call: Callable[[Any], Any], argument: Any) -> tuple[Any, bytes | None, str]:
    """Return what the call returned, or the pickled error and its traceback."""
    try:
        return call(argument), None, ""
    except Exception as error:
        text = traceback.format_exc()
        try:
            pickled = pickle_function(error)
            unpickle_function(pickled)  # some can be pickled, but not loaded
        except Exception:
            pickled = pickle_function(RuntimeError(f"{type(error).__name__}: {error}"))
        return None, pickled, text
