"""Encodings as MosaicML Streaming users define them, in a module so that they can be pickled."""

from typing import Any

import numpy as np


class Complex128:
    """A NumPy complex number, which has a fixed size."""

    size = 16

    def encode(self, obj: Any) -> bytes:
        return np.complex128(obj).tobytes()

    def decode(self, data: bytes) -> Any:
        return np.frombuffer(data, np.complex128)[0]


class Words:
    """A list of words, which has a variable size."""

    size = None

    def encode(self, obj: Any) -> bytes:
        return " ".join(obj).encode()

    def decode(self, data: bytes) -> Any:
        return data.decode().split()


class Square:
    """A square array whose side length is a parameter."""

    def __init__(self, side: int = 2) -> None:
        self.side, self.size = side, side * side

    @classmethod
    def from_str(cls, text: str) -> "Square":
        return cls(int(text))

    def encode(self, obj: Any) -> bytes:
        return np.asarray(obj, np.uint8).tobytes()

    def decode(self, data: bytes) -> Any:
        return np.frombuffer(data, np.uint8).reshape(self.side, self.side)


class Digits:
    """Integers as text; registered as `int`, it replaces the format's own encoding."""

    size = None

    def encode(self, obj: Any) -> bytes:
        return str(obj).encode()

    def decode(self, data: bytes) -> Any:
        return int(data)


#: Encodings registered by the test programs.
OWN = {"complex128": Complex128, "words": Words, "square": Square, "int": Digits}

COLUMNS = {
    "c": "complex128",
    "i": "int",
    "n": "int64",
    "s": "square",
    "t": "square:3",
    "w": "words",
}

#: Columns to read: all, those of fixed size (read as records), and one that redefines `int`.
LAYOUTS = {"all": list(COLUMNS), "fixed": ["c", "n", "s", "t"], "redefined": ["i", "n"]}


def sample(i: int) -> dict[str, Any]:
    """Return a sample with the columns in COLUMNS."""
    return {
        "c": complex(i, -i),
        "i": 1000 * i,
        "n": i,
        "s": np.full((2, 2), i, np.uint8),
        "t": np.full((3, 3), i, np.uint8),
        "w": ["a"] * (i % 4),
    }
