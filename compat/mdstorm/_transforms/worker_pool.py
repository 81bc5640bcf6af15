"""A pool of worker processes that call a function, and how functions are pickled for it."""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import logging
import os
import pickle
import queue
import signal
import socket
import struct
import subprocess
import sys
import threading
import traceback
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from mdstorm.errors import MissingDependencyError, WorkerDiedError

#: Code that a fresh interpreter runs, so that it need not import the program's main module again.
_PROGRAM = (
    "import json, sys; "
    "sys.path[:] = list(dict.fromkeys([*json.loads(sys.argv[1]), *sys.path])); "
    "from mdstorm._transforms.worker_pool import main; main(int(sys.argv[2]))"
)
_pools: weakref.WeakSet[WorkerPool] = weakref.WeakSet()
_COUNT = struct.Struct("<Q")
_logger = logging.getLogger(__name__)


class _RemoteError(Exception):
    """The traceback of an error that was raised in a worker process."""


class _Worker:
    """A worker process and the channel for communicating with it."""

    def __init__(self, function: bytes) -> None:
        self.channel, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, json.dumps(sys.path), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        self._unsent: bytes | None = function

    def call(self, argument: Any) -> tuple[Any, bytes | None, str]:
        """Call the function; return its result, or its pickled error and traceback."""
        if self._unsent is not None:
            send(self.channel, self._unsent)
            self._unsent = None
        send(self.channel, argument)
        outcome: tuple[Any, bytes | None, str] = receive(self.channel)
        return outcome

    def end(self) -> None:
        """Kill the process, even in the middle of a call."""
        self.process.kill()
        self.process.wait()
        self.channel.close()


class WorkerPool:
    """Worker processes that call a function.

    Threads can share a pool. A call waits until a worker is free, and returns its own result,
    regardless of the order in which workers finish. Workers are started when first needed. They end
    with the pool, or with this process, even if it is killed. A pool can be pickled, and a copy in
    another process has its own workers.

    Parameters
    ----------
    function : bytes
        The function to call, with one argument, as `pickle_function` returns it.
    workers : int
        Maximum number of worker processes.
    """

    def __init__(self, function: bytes, workers: int) -> None:
        self._function = function
        self._size = workers
        self._closed = False
        #: Numbers of calls that have begun and that have returned.
        self._begun = self._returned = 0
        self._begin()
        _pools.add(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return WorkerPool, (self._function, self._size)

    def _begin(self) -> None:
        """Initialize the pool in this process, without any workers."""
        self._idle: list[_Worker] = []
        self.alive: list[_Worker] = []
        self._free = threading.Condition()
        weakref.finalize(self, _end_all, self.alive)

    def __call__(self, argument: Any) -> Any:
        """Return the function's result, or raise its error unchanged.

        Raises
        ------
        WorkerDiedError
            If the worker process ends unexpectedly.
        """
        worker = self._take()
        try:
            result, error, traceback = worker.call(argument)
        except (EOFError, OSError) as closed:
            raise self._discard(worker) from closed
        except BaseException:  # such as KeyboardInterrupt, while the result is pending
            self._discard(worker)
            raise
        with self._free:
            self._returned += 1
            if not self._closed:
                self._idle.append(worker)
            self._free.notify()
        if error is not None:
            raise unpickle_function(error) from _RemoteError(f"\n{traceback}")
        return result

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of results consumed and produced, and of calls in progress."""
        return {
            "items_consumed": self._returned,
            "items_produced": self._returned,
            "items_inprocess": self._begun - self._returned,
        }

    def close(self) -> None:
        """Kill all workers, even in the middle of a call; subsequent calls fail."""
        with self._free:
            self._closed = True
            _end_all(self.alive)
            self._free.notify_all()

    def _take(self) -> _Worker:
        with self._free:
            self._free.wait_for(lambda: self._closed or self._idle or len(self.alive) < self._size)
            if self._closed:
                raise _ended()
            self._begun += 1
            if self._idle:
                return self._idle.pop()
            worker = _Worker(self._function)
            self.alive.append(worker)
            return worker

    def _discard(self, worker: _Worker) -> WorkerDiedError:
        """End a worker, and return the error that reports its end."""
        with self._free:
            if self._closed:
                return _ended()
            self.alive.remove(worker)
            self._free.notify()
        worker.end()
        return WorkerDiedError(
            f"a worker process ended with exit code {worker.process.returncode} while running the "
            "function of a transform or predicate. A negative code is a signal: -9 usually means "
            "out of memory, and -11 a crash in native code. Read with a smaller workers_count, or "
            "with reader_pool_type='thread'"
        )


def _ended() -> WorkerDiedError:
    return WorkerDiedError(
        "stop() has ended the worker processes of this reader: open a new reader"
    )


def _end_all(workers: list[_Worker]) -> None:
    while workers:
        workers.pop().end()


def _leave_workers() -> None:
    """Drop workers in a forked child, so that the workers notice when their parent ends."""
    for pool in _pools:
        while pool.alive:
            worker = pool.alive.pop()
            worker.process.returncode = 0  # not our child; a return code prevents Popen's warning
            worker.channel.close()
        pool._begin()


os.register_at_fork(after_in_child=_leave_workers)


def main(file_descriptor: int) -> None:
    """Serve the process at the other end of a socket until that process ends.

    The first message is the pickled function, and each subsequent message is an argument for it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the reader's process handles Ctrl-C
    channel = socket.socket(fileno=file_descriptor)
    try:
        # Load the function before starting a second thread, because some modules cannot be imported
        # by two threads at once.
        function, *failure = _outcome(unpickle_function, receive(channel))
    except (EOFError, OSError):
        return
    # Listen in a thread, so that this process ends with its parent even while the function runs.
    messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(channel, messages), daemon=True).start()
    while True:
        argument = messages.get()
        send(channel, _outcome(function, argument) if failure[0] is None else (None, *failure))


def _listen(channel: socket.socket, messages: queue.SimpleQueue[Any]) -> None:
    try:
        while True:
            messages.put(receive(channel))
    except (EOFError, OSError):
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def _outcome(call: Callable[[Any], Any], argument: Any) -> tuple[Any, bytes | None, str]:
    """Call the function; return its result, or its pickled error and traceback."""
    try:
        return call(argument), None, ""
    except Exception as error:
        text = traceback.format_exc()
        try:
            pickled = pickle_function(error)
            unpickle_function(pickled)  # some errors can be pickled, but not unpickled
        except Exception:
            pickled = pickle_function(RuntimeError(f"{type(error).__name__}: {error}"))
        return None, pickled, text


def send(channel: socket.socket, message: Any) -> None:
    """Send an object, with the memory of its arrays sent out of band without copying.

    Raises
    ------
    OSError
        If the other end has been closed.
    """
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(message, protocol=5, buffer_callback=buffers.append)
    parts = [memoryview(data), *(buffer.raw() for buffer in buffers)]
    sizes = [part.nbytes for part in parts]
    channel.sendall(b"".join(map(_COUNT.pack, [len(sizes), *sizes])))
    for part in parts:
        channel.sendall(part)


def receive(channel: socket.socket) -> Any:
    """Receive the next object; its arrays are writable.

    Raises
    ------
    EOFError, OSError
        If the other end has been closed.
    """
    (count,) = _COUNT.unpack(_receive_bytes(channel, _COUNT.size))
    sizes = [size for (size,) in _COUNT.iter_unpack(_receive_bytes(channel, count * _COUNT.size))]
    data, *buffers = [_receive_bytes(channel, size) for size in sizes]
    return pickle.loads(data, buffers=buffers)  # noqa: S301  # sent by our own process


def _receive_bytes(channel: socket.socket, size: int) -> memoryview:
    # Do not use a bytearray, which would first be filled with zeros.
    whole: memoryview = np.empty(size, np.uint8).data
    left = whole
    while left.nbytes:
        received = channel.recv_into(left)
        if received == 0:
            raise EOFError("the other end of the channel was closed")
        left = left[received:]
    return whole


def pickle_function(function: Any) -> bytes:
    """Pickle a function, or an object that contains functions, by value if necessary.

    Raises
    ------
    MissingDependencyError
        If pickling by value requires a library that is not installed.
    """
    library = _cloudpickle()
    if library is not None:
        return library.dumps(function)  # type: ignore[no-any-return]
    try:
        return pickle.dumps(function)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise MissingDependencyError(
            f"the function cannot be sent to another process with pickle ({error}). Install "
            "cloudpickle (pip install cloudpickle), or read with reader_pool_type='thread'"
        ) from error


def unpickle_function(pickled: bytes) -> Any:
    """Load an object that `pickle_function` pickled in this process, its parent or a worker."""
    return pickle.loads(pickled)  # noqa: S301  # never from a dataset


def function_identity(function: Callable[..., Any] | None) -> bytes:
    """Return bytes that change when a function, or a function it calls in its module, changes.

    Equal functions may have different identities. Different functions never have the same identity,
    unless they differ only in the code that they call in other modules.
    """
    if function is None:
        return b""
    if isinstance(function, functools.partial):
        given = pickle_function((function.args, function.keywords))
        return function_identity(function.func) + given
    library, module = _cloudpickle(), inspect.getmodule(function)
    if library is None:
        return pickle_function(function) + _source_of(module)
    if module is None or module.__name__ in ("__main__", *library.list_registry_pickle_by_value()):
        return pickle_function(function)
    library.register_pickle_by_value(module)
    try:
        return pickle_function(function)
    except Exception as error:
        _logger.debug("%s cannot be pickled, so its source is compared (%r)", module, error)
    finally:
        library.unregister_pickle_by_value(module)
    return pickle_function(function) + _source_of(module)


def _source_of(module: ModuleType | None) -> bytes:
    try:
        return b"" if module is None else inspect.getsource(module).encode()
    except (OSError, TypeError):
        return b""


def _cloudpickle() -> Any:
    """Return cloudpickle or PySpark's copy of it; None if neither is installed."""
    for name in ("cloudpickle", "pyspark.cloudpickle"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None
