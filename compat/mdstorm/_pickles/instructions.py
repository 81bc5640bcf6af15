"""The instructions of pickles, written one by one.

All are known to protocol 2, which every version of Python reads, but for bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable


def imported(module: str, name: str) -> bytes:
    """Push the object ``module.name``."""
    return b"c" + f"{module}\n{name}\n".encode("ascii")


def called(function: bytes, *arguments: bytes) -> bytes:
    """Push what a function returns."""
    return function + tuple_of(arguments) + b"R"


def instance(module: str, name: str, state: list[tuple[str, bytes]]) -> bytes:
    """Push an object of a class, with some attributes."""
    made = imported(module, name) + b")\x81"
    return made + (
        b"}" + items((text(key), value) for key, value in state) + b"b" if state else b""
    )


def ordered_dict(pairs: Iterable[tuple[str, bytes]]) -> bytes:
    """Push a `collections.OrderedDict`."""
    empty = called(imported("collections", "OrderedDict"))
    return empty + items((text(key), value) for key, value in pairs)


def items(pairs: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Set keys and values in the dict on top of the stack."""
    return b"(" + b"".join(key + value for key, value in pairs) + b"u"


def tuple_of(values: Iterable[bytes]) -> bytes:
    """Push a tuple."""
    return b"(" + b"".join(values) + b"t"


def list_of(values: Iterable[bytes]) -> bytes:
    """Push a list."""
    return b"](" + b"".join(values) + b"e"


def text(value: str) -> bytes:
    """Push a string."""
    content = value.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(content)) + content


def binary(value: bytes) -> bytes:
    """Push bytes, which need protocol 3."""
    return b"B" + struct.pack("<I", len(value)) + value


def integer(value: int | None) -> bytes:
    """Push an integer of any size, or None."""
    return b"N" if value is None else b"I" + str(int(value)).encode("ascii") + b"\n"


def number(value: float) -> bytes:
    """Push a float."""
    return b"G" + struct.pack(">d", value)


def boolean(value: bool) -> bytes:
    """Push True or False."""
    return b"\x88" if value else b"\x89"
