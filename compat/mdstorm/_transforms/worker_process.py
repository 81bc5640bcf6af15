"""The main loop of a worker process: receive arguments, call one function, send its result."""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import pickle
import queue
import signal
import socket
import struct
import threading
import traceback
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

import numpy as np

from mdstorm.errors import MissingDependencyError

_COUNT = struct.Struct("<Q")


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
    """Load the function. If that fails, return one that raises the error when called."""
    try:
        function: Callable[[Any], Any] = unpickle_function(pickled)
        return function
    except Exception as error:
        failure = error

        def fail(argument: Any) -> Any:
            raise failure

        return fail


def _outcome(call: Callable[[Any], Any], argument: Any) -> tuple[Any, bytes | None, str]:
    """Call the function; return its result, or its pickled error and traceback."""
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


def send(channel: socket.socket, message: Any) -> None:
    """Send an object. The memory of its arrays is sent out of band, without copying it.

    Raises
    ------
    OSError
        If the other end is gone.
    """
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(message, protocol=5, buffer_callback=buffers.append)
    parts = [memoryview(data), *(buffer.raw() for buffer in buffers)]
    sizes = [part.nbytes for part in parts]
    channel.sendall(b"".join(map(_COUNT.pack, [len(sizes), *sizes])))
    for part in parts:
        channel.sendall(part)


def receive(channel: socket.socket) -> Any:
    """Return the next object; its arrays are writable.

    Raises
    ------
    EOFError, OSError
        If the other end is gone.
    """
    (count,) = _COUNT.unpack(_read(channel, _COUNT.size))
    sizes = [size for (size,) in _COUNT.iter_unpack(_read(channel, count * _COUNT.size))]
    data, *buffers = [_read(channel, size) for size in sizes]
    return _load(data, buffers)


def _load(data: memoryview, buffers: Iterable[memoryview]) -> Any:
    return pickle.loads(data, buffers=buffers)  # noqa: S301  # a process of our own sent it


def _read(channel: socket.socket, size: int) -> memoryview:
    # Not a bytearray, which would be filled with zeros first.
    whole: memoryview = np.empty(size, np.uint8).data
    left = whole
    while left.nbytes:
        received = channel.recv_into(left)
        if received == 0:
            raise EOFError("the other end of the channel was closed")
        left = left[received:]
    return whole


def pickle_function(function: Any) -> bytes:
    """Pickle a function, or an object with functions, by value if needed.

    Raises
    ------
    MissingDependencyError
        If that needs a library that is not installed.
    """
    library = _cloudpickle()
    if library is not None:
        return library.dumps(function)  # type: ignore[no-any-return]
    try:
        return pickle.dumps(function)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise MissingDependencyError(
            f"the function cannot be sent to another process by pickle ({error}). Install the "
            "library that can: pip install cloudpickle, or read with reader_pool_type='thread'"
        ) from error


def unpickle_function(pickled: bytes) -> Any:
    """Load what `pickle_function` made, in this process or in one that it started."""
    return pickle.loads(pickled)  # noqa: S301  # never from a dataset


def function_identity(function: Callable[..., Any] | None) -> bytes:
    """Return bytes that change with a function, and with what it calls in its module.

    Equal functions may have different identities; different functions never share one, unless they
    differ only in what they call in other modules.
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
    except Exception:  # its module holds what cannot be pickled
        pass
    finally:
        library.unregister_pickle_by_value(module)
    return pickle_function(function) + _source_of(module)


def _source_of(module: ModuleType | None) -> bytes:
    try:
        return b"" if module is None else inspect.getsource(module).encode()
    except (OSError, TypeError):
        return b""


def _cloudpickle() -> Any:
    """Return cloudpickle, alone or from another library that includes it, or None."""
    for name in ("cloudpickle", "pyspark.cloudpickle"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None
