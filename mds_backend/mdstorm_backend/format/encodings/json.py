"""The encoding of values stored as JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from mdstorm_backend.format.encodings.decode_json import decode_json, decode_lists
from mdstorm_backend.format.encodings.encode_json import json_text
from mdstorm_backend.format.encodings.encode_numbers import check_no_mask
from mdstorm_backend.format.encodings.encoding import Decode, Encoding, Form
from mdstorm_backend.format.values.nested_lists import element_type
from mdstorm_backend.format.values.spark_types import spark_type_of


class Json(Encoding):
    """The encoding ``json``: nested values, of a Spark type or any that JSON has."""

    names = ("json",)
    is_text = True
    late = "untyped"

    def can_store(self, type_: pa.DataType) -> bool:
        """Whether Spark has the type, also unsigned."""
        is_known = spark_type_of(type_) is not None or pa.types.is_unsigned_integer(type_)
        return bool(is_known or super().can_store(type_))

    def is_nested(self, type_: pa.DataType) -> bool:
        """Whether values are more than lists, of any depth, of strings or binaries."""
        element = element_type(type_)
        is_text = pa.types.is_string(element) or pa.types.is_binary(element)
        return not (pa.types.is_list(type_) and is_text)

    def encode(self, value: Any) -> bytes:
        """Encode what JSON has a word for, and arrays as lists."""
        if isinstance(value, np.ndarray):
            check_no_mask(value)
            value = value.tolist()
        return json.dumps(value).encode()

    def encode_values(self, values: pa.Array) -> pa.LargeBinaryArray:
        """Encode nested values; also binaries are values here, and a null is one."""
        return json_text(values).cast(pa.large_binary())

    def decode(self, stored: Any) -> Any:
        """Return what the text stands for."""
        return json.loads(stored)

    def decoder(self, form: Form = "object") -> Decode:
        """Return the function that `decode` calls: values are many."""
        return json.loads

    def to_logical(self, values: pa.Array, type_: pa.DataType) -> pa.Array:
        """Return the values of their Spark type."""
        return (
            decode_lists(values, type_) if pa.types.is_list(type_) else decode_json(values, type_)
        )
