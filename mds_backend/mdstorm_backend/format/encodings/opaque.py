"""Encodings that cannot be decoded: unknown ones, and mixtures in one column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mdstorm_backend.errors import UnsupportedEncodingError
from mdstorm_backend.format.encodings.encoding import Encoding


class Opaque(Encoding):
    """An encoding of a later version, or of somebody else's."""

    is_opaque = True
    late = "never"

    def sized(self, size: int) -> Encoding:
        """Return it for values of a size, which the index states."""
        return replace(self, dtype=np.dtype(f"V{size}"), shape=())

    def general(self, encodings: Sequence[Encoding]) -> str | None:
        """Return None."""
        return None

    def check_decodable(self, column: str) -> None:
        """Raise UnsupportedEncodingError."""
        # The registry has a class of this module for what it does not know.
        from mdstorm_backend.format.encodings.registry import encoding_names

        raise UnsupportedEncodingError(
            f"column {column!r} has encoding {self.text!r}, which this version of mdstorm "
            f"cannot decode; it decodes {', '.join(encoding_names())}. Leave the column out with "
            "columns=[…]"
        )

    def encode(self, value: Any) -> bytes:
        """Raise UnsupportedEncodingError."""
        raise UnsupportedEncodingError(f"there is no encoding {self.text!r}")

    def decode(self, stored: Any) -> Any:
        """Raise UnsupportedEncodingError."""
        raise UnsupportedEncodingError(f"there is no encoding {self.text!r}")


class Mixed(Opaque):
    """What stands for the encodings of several shards that have nothing in common."""

    names = ("mixed",)

    @classmethod
    def of(cls, texts: Sequence[str]) -> str:
        """Return the text for the encodings `texts`."""
        return f"mixed:{' and '.join(texts)}"

    @classmethod
    def parse(cls, text: str, parameters: str) -> Encoding | None:
        """Return it for any parameters."""
        return cls(text)

    def check_decodable(self, column: str) -> None:
        """Raise UnsupportedEncodingError, and say that samples can be read."""
        raise UnsupportedEncodingError(
            f"column {column!r} is stored in shards as {self.text.partition(':')[2]}, which "
            "have no common form. Read it a sample at a time, dataset[i], or leave it out with "
            "columns=[…]"
        )
