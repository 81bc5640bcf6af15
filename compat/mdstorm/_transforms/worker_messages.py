"""Messages between a reader and its worker processes: pickles with out-of-band arrays."""

from __future__ import annotations

import pickle
import socket
import struct
from collections.abc import Iterable
from typing import Any

import numpy as np

_COUNT = struct.Struct("<Q")


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
