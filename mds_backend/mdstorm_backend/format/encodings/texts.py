"""Encodings of text: strings, numbers written in decimal digits, and JSON."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from mdstorm_backend.format.encodings.encoding import (
    DecodeSpan,
    DecodeValue,
    Encode,
    Encoding,
    Form,
)
from mdstorm_backend.format.encodings.json_text import decode_json, decode_lists, json_text
from mdstorm_backend.format.encodings.numbers import DTYPES, check_no_mask
from mdstorm_backend.format.values.arrow_types import spark_type_of
from mdstorm_backend.format.values.batch import Values
from mdstorm_backend.format.values.nested_lists import element_type


class String(Encoding):
    """The encoding ``str``: text in UTF-8."""

    names = ("str",)
    is_text = True
    is_cast = True
    is_verbatim = True
    late = "never"
    carries = (pa.types.is_string,)
    stores = (pa.types.is_temporal, pa.types.is_boolean)

    def encode(self, value: Any) -> bytes:
        """Return the string as UTF-8; ``bytes`` have to be UTF-8, and are returned unchanged."""
        if isinstance(value, str):
            return value.encode()
        if isinstance(value, bytes):
            value.decode()
            return value
        raise TypeError(f"expected a str, found {type(value).__name__}")

    def encoder(self) -> Encode:
        """Return `encode`, which also accepts ``bytes``, but checks for the usual `str` first."""
        return self.encode

    def decode(self, stored: Any) -> Any:
        """Return the string itself."""
        return stored

    def span_decoder(self, data: memoryview, decode: DecodeValue) -> DecodeSpan:
        """Return the function that decodes the string between two positions."""
        return lambda start, stop: str(data[start:stop], "utf-8")


class _ParsedText(Encoding):
    """A value stored as text, which a Python function parses."""

    is_text = True
    #: The function that parses a string.
    parser: ClassVar[Callable[[str], Any]]

    def decode(self, stored: Any) -> Any:
        """Parse the string, and return its value."""
        return type(self).parser(stored)

    def decoder(self, form: Form = "object") -> DecodeValue:
        """Return the parser itself rather than `decode`, to save a call per value."""
        return type(self).parser


class _NumberText(_ParsedText):
    """A number stored as text."""

    is_number = True
    rows_per_batch = 10_000

    def to_logical(self, values: pa.Array, type_: pa.DataType) -> pa.Array:
        """Return the numbers cast to their Spark type."""
        return values.cast(type_)


class IntegerText(_NumberText):
    """The encoding ``str_int``: an integer of any size."""

    names = ("str_int",)
    parser = int
    is_cast = True
    late = "never"
    carries = (pa.types.is_integer,)
    stores = (pa.types.is_integer, pa.types.is_boolean)
    placeholder = b"0"
    holds = frozenset({"int", *(name for name in DTYPES if "int" in name and name != "uint64")})

    @property
    def arrow_type(self) -> pa.DataType:
        """int64, although larger integers can be stored."""
        return pa.int64()

    def encode(self, value: Any) -> bytes:
        """Return the decimal digits of an integer."""
        if not isinstance(value, (int, np.integer)):
            raise TypeError(f"expected an int, found {type(value).__name__}")
        return str(operator.index(value)).encode()

    def encode_values(self, values: pa.Array) -> pa.LargeBinaryArray:
        """Encode integers, and booleans as 0 and 1."""
        is_boolean = pa.types.is_boolean(values.type)
        return super().encode_values(values.cast(pa.uint8()) if is_boolean else values)

    def parse_texts(self, texts: pa.StringArray) -> Values:
        """Parse strings like Python's ``int``: to int64, or to Python integers if one is larger."""
        content = memoryview(texts.buffers()[2] or b"").tobytes()
        if b"x" not in content and b"X" not in content:  # unlike `int`, Arrow accepts hexadecimal
            try:
                return texts.cast(pa.int64())
            except pa.ArrowInvalid:
                pass  # too large, or with a plus sign, spaces or underscores, which Python accepts
        numbers = [int(text) for text in texts.to_pylist()]
        try:
            return pa.array(numbers, pa.int64())
        except OverflowError:
            return np.fromiter(numbers, object, len(numbers))


class FloatText(_NumberText):
    """The encoding ``str_float``: a float64 as text, without loss."""

    names = ("str_float",)
    parser = float
    late = "never"
    carries = (pa.types.is_floating,)
    stores = (pa.types.is_float64,)
    placeholder = b"nan"
    holds = frozenset(name for name in DTYPES if "float" in name)

    @property
    def arrow_type(self) -> pa.DataType:
        """float64."""
        return pa.float64()

    def encode(self, value: Any) -> bytes:
        """Return the shortest text that parses to the same float."""
        if not isinstance(value, float):
            raise TypeError(f"expected a float, found {type(value).__name__}: use float(…)")
        return float.__repr__(value).encode()

    def parse_texts(self, texts: pa.StringArray) -> Values:
        """Parse strings like Python's ``float``, to float64."""
        try:
            return texts.cast(pa.float64())
        except pa.ArrowInvalid:
            return pa.array([float(text) for text in texts.to_pylist()], pa.float64())


class DecimalText(_NumberText):
    """The encoding ``str_decimal``: a decimal, whose precision is only in the Spark type."""

    names = ("str_decimal",)
    parser = Decimal
    is_cast = True
    late = "untyped"
    carries = (pa.types.is_decimal,)
    stores = (pa.types.is_decimal, pa.types.is_integer)
    placeholder = b"NaN"

    def encode(self, value: Any) -> bytes:
        """Return a decimal as a string in UTF-8."""
        if not isinstance(value, Decimal):
            raise TypeError(f"expected a decimal.Decimal, found {type(value).__name__}")
        return str(value).encode()


class Json(_ParsedText):
    """The encoding ``json``: nested values of a Spark type, or any JSON value."""

    names = ("json",)
    is_collated = True
    parser = json.loads
    late = "untyped"

    def can_store(self, type_: pa.DataType) -> bool:
        """Whether Spark has the type, or the type is an unsigned integer."""
        is_known = spark_type_of(type_) is not None or pa.types.is_unsigned_integer(type_)
        return bool(is_known or super().can_store(type_))

    def is_nested(self, type_: pa.DataType) -> bool:
        """Whether values are anything other than lists, of any depth, of strings or binaries."""
        element = element_type(type_)
        is_text = pa.types.is_string(element) or pa.types.is_binary(element)
        return not (pa.types.is_list(type_) and is_text)

    def encode(self, value: Any) -> bytes:
        """Return the JSON text of a value; NumPy arrays are written as lists."""
        if isinstance(value, np.ndarray):
            check_no_mask(value)
            value = value.tolist()
        return json.dumps(value).encode()

    def encode_values(self, values: pa.Array) -> pa.LargeBinaryArray:
        """Encode values, including binaries, as JSON strings; a null becomes ``null``."""
        return json_text(values).cast(pa.large_binary())

    def to_logical(self, values: pa.Array, type_: pa.DataType) -> pa.Array:
        """Parse the strings into values of their Spark type."""
        return (
            decode_lists(values, type_) if pa.types.is_list(type_) else decode_json(values, type_)
        )
