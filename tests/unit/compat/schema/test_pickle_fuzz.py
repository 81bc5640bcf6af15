"""Reading arbitrary bytes as a pickle returns a schema or raises `UnsafePickleError`."""

import pickle
import pickletools
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.compat.schema.pickles import EVERYTHING, protocol_0

from mdstorm._pickles import dump_unischema, load_indexes, load_unischema
from mdstorm.errors import UnsafePickleError
from mdstorm.unischema import Unischema, UnischemaField

METADATA = pq.read_metadata(
    Path(__file__).parents[1] / "etl" / "golden" / "codecs" / "_common_metadata"
).metadata
REAL = [
    METADATA[b"dataset-toolkit.unischema.v1"],
    METADATA[b"dataset-toolkit.rowgroups_index.v1"],
    protocol_0(),
    protocol_0(restored=True),
    dump_unischema(EVERYTHING),
]
PROTOCOLS = st.integers(0, pickle.HIGHEST_PROTOCOL)
FIELDS = st.builds(
    UnischemaField,
    st.text(),
    st.sampled_from([np.int8, np.str_, np.datetime64, Decimal, bool, float]),
    st.lists(st.none() | st.integers(0, 2**64 - 1), max_size=5).map(tuple),
    st.none(),
    st.booleans(),
)


def load(data: bytes) -> None:
    for function in (load_unischema, load_indexes):
        try:
            found = function(data)
        except UnsafePickleError:
            continue
        assert isinstance(found, (Unischema, dict))


#: Each change consists of a position in the pickle, the number of bytes to remove there, and their
#: replacement, which is either bytes or a slice of another pickle.
CHANGES = st.lists(
    st.tuples(
        st.integers(0),
        st.integers(0, 20),
        st.binary(max_size=3)
        | st.tuples(st.sampled_from(REAL), st.integers(0), st.integers(0, 40)),
    ),
    min_size=1,
    max_size=5,
)


@settings(deadline=None, max_examples=250)
@given(st.sampled_from(REAL), CHANGES)
def test_damaged_pickles_are_read_or_raise_error(data: bytes, changes: list[Any]) -> None:
    for at, length, put in changes:
        at %= len(data) + 1
        if isinstance(put, tuple):
            other, start, count = put
            put = other[start % len(other) :][:count]
        data = data[:at] + put + data[at + length :]
    load(data)


@settings(deadline=None, max_examples=200)
@given(
    st.lists(
        st.sampled_from([op.code.encode("latin-1") for op in pickletools.opcodes])
        | st.sampled_from(
            [b"\x01", b"\x02\x00", b"cnumpy\ndtype\n", b"X\x01\x00\x00\x00a", b"I1\n"]
        ),
        max_size=40,
    )
)
def test_random_instructions_are_read_or_raise_error(instructions: list[bytes]) -> None:
    load(b"".join([*instructions, b"."]))


@given(st.lists(FIELDS, max_size=5, unique_by=lambda field: field.name), PROTOCOLS)
def test_fields_with_any_names_and_shapes_are_read_unchanged(
    fields: list[UnischemaField], protocol: int
) -> None:
    found = load_unischema(pickle.dumps(Unischema("S", fields), protocol))
    assert list(found.fields.values()) == list(Unischema("S", fields).fields.values())


def test_pickles_over_the_size_limit_raise_error() -> None:
    with pytest.raises(UnsafePickleError, match="of 268435457 bytes is not loaded"):
        load_unischema(bytes((1 << 28) + 1))
