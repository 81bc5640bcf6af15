"""Decode single samples, in a few microseconds.

What can be known of a shard beforehand is worked out once: for every column a function from the
place of a value to the value, and where in a sample that place is.
"""

from __future__ import annotations

import struct
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from mdstorm_backend.format.encodings.encoding import DecodeSpan
from mdstorm_backend.read.mds_file import MDSFile
from mdstorm_backend.read.sample_values import ValueDecoder

SampleDecoder: TypeAlias = Callable[[int], dict[str, Any]]


def sample_decoder(shard: MDSFile, columns: Sequence[str]) -> SampleDecoder:
    """Return the function that decodes some columns of one row of `shard`.

    The row has to exist. The function raises what decoding raises, see `MDSShard.sample`.
    """
    decoders = {name: ValueDecoder(shard, name) for name in columns}
    fast = [name for name, decoder in decoders.items() if not decoder.needs_core]
    slow = [name for name in columns if name not in fast]
    decode = _of_records(shard, decoders, fast) if shard.is_fixed else _of_variable(shard, decoders)
    masks = {
        name: mask.data
        for name, decoder in decoders.items()
        if decoder.column.null_count and not decoder.needs_core
        for mask in [shard.validity.rows.get(name)]
        if mask is not None
    }
    if not masks and not slow and (shard.is_fixed or _in_stored_order(shard, columns)):
        return decode
    names = tuple(columns)
    finish = {name: decoders[name].of_core() for name in slow}
    # The shard keeps this function, which must not keep the shard: its file stays open meanwhile.
    reference = weakref.ref(shard)

    def decode_all(row: int) -> dict[str, Any]:
        sample = decode(row)
        for name, mask in masks.items():
            if not mask[row]:
                sample[name] = None
        if slow:
            owner = reference()
            assert owner is not None
            values = _by_core(owner, row, slow)
            sample.update({name: finish[name](values[name]) for name in slow})
        return {name: sample[name] for name in names}

    return decode_all


def _in_stored_order(shard: MDSFile, columns: Sequence[str]) -> bool:
    return list(columns) == [name for name in shard.layout.names if name in columns]


def _by_core(shard: MDSFile, row: int, columns: Sequence[str]) -> dict[str, Any]:
    batch = shard.read(np.array([row]), columns, exact_nulls=True)
    return {
        name: values[0] if isinstance(values, np.ndarray) else values[0].as_py()
        for name, values in batch.items()
    }


def _of_records(
    shard: MDSFile, decoders: dict[str, ValueDecoder], fast: Sequence[str]
) -> SampleDecoder:
    """Decode samples of one size, whose values lie at equal distances."""
    getters = [(name, decoders[name].of_row()) for name in fast]

    def decode(row: int) -> dict[str, Any]:
        return {name: get(row) for name, get in getters}

    return decode


def _of_variable(shard: MDSFile, decoders: dict[str, ValueDecoder]) -> SampleDecoder:
    """Decode samples of varying size, which begin with the sizes of their variable columns."""
    layout = shard.layout
    offsets = shard.offsets.view(np.uint8).data.cast("I")
    data = shard.data
    unpack = struct.Struct(f"<{layout.num_variable}I").unpack_from
    words = layout.size_words
    fixed = sum(encoding.size or 0 for encoding in layout.encodings)
    variable = iter(range(layout.num_variable))
    plan: list[tuple[str, int | None, int, DecodeSpan | None]] = []
    for name, encoding in zip(layout.names, layout.encodings, strict=True):
        decoder = decoders.get(name)
        get = None if decoder is None or decoder.needs_core else decoder.of_span()
        place = -1 if encoding.size is not None else next(variable)
        plan.append((name, encoding.size, place, get))
    while plan and plan[-1][-1] is None:
        plan.pop()

    def decode(row: int) -> dict[str, Any]:
        start = offsets[row]
        sizes = unpack(data, start)
        position = start + words
        if position + fixed + sum(sizes) != offsets[row + 1]:
            raise ValueError(f"sample {row} has column sizes that do not add up to its length")
        sample = {}
        for name, size, place, get in plan:
            stop = position + (sizes[place] if size is None else size)
            if get is not None:
                sample[name] = get(position, stop)
            position = stop
        return sample

    return decode
