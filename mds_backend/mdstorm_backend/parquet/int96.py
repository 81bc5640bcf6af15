"""Repair INT96 timestamps before 1970."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

#: The unit to read them in. Microseconds cover the years 1 to 9999, nanoseconds 1677 to 2262; other
#: times wrap around.
Int96Unit: TypeAlias = Literal["us", "ns"]

# 2**64 nanoseconds are _WRAP_US microseconds and _WRAP_REST_NS nanoseconds.
_WRAP_US, _WRAP_REST_NS = divmod(2**64, 1000)
_NS_MIN_US, _NS_MAX_US = -(2**63) // 1000, (2**63 - 1) // 1000


def with_times_repaired(
    columns: Mapping[str, pa.Array],
    metadata: pq.FileMetaData,
    read_as_ns: Callable[[list[str]], pa.Table],
) -> dict[str, pa.Array]:
    """Repair times before 1970 in columns whose INT96 timestamps were read as microseconds.

    Arrow 12 to 18, at least, writes the time of day of such times as a negative number, which the
    format reads as an unsigned one: they come out 2**64 nanoseconds late. Reading them as
    nanoseconds, which Arrow keeps modulo 2**64, distinguishes them from correct times: the two
    readings differ only where a time was late, or has fractions of microseconds; and Arrow writes
    such fractions only within the range of nanoseconds, 1677 to 2262. So a time that differs and
    is outside that range was late.

    What cannot be distinguished is kept: times of the years 1093 to 1677, and one in a thousand of
    the times with fractions of microseconds.

    Parameters
    ----------
    columns : mapping of str to pyarrow.Array
        Some rows of a file.
    metadata : pyarrow.parquet.FileMetaData
        The footer of the file.
    read_as_ns : callable
        Reads columns of the same rows with INT96 timestamps as nanoseconds.
    """
    repaired = dict(columns)
    if _is_of_arrow(metadata):
        suspects = [name for name in columns if _is_suspect(columns[name])]
        suspects = suspects and [name for name in suspects if _is_int96(name, metadata)]
        if suspects:
            exact = read_as_ns(suspects)
            for name in suspects:
                repaired[name] = _repaired(columns[name], exact[name].combine_chunks())
    return repaired


def _is_of_arrow(metadata: pq.FileMetaData) -> bool:
    try:
        return (metadata.created_by or "").startswith("parquet-cpp-arrow")
    except UnicodeDecodeError:  # the name of another writer, or damaged: the columns can be read
        return False


def _is_int96(name: str, metadata: pq.FileMetaData) -> bool:
    columns = (metadata.schema.column(number) for number in range(metadata.num_columns))
    return any(
        column.physical_type == "INT96"
        and (column.path == name or column.path.startswith(f"{name}.list."))
        for column in columns
    )


def _is_suspect(times: pa.Array) -> bool:
    is_list = pa.types.is_list(times.type)
    if not pa.types.is_timestamp(times.type.value_type if is_list else times.type):
        return False
    if is_list:
        times = times.flatten()
    bounds = pc.min_max(times.cast(pa.int64()))
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    return low is not None and (low < _NS_MIN_US or high > _NS_MAX_US)


def _repaired(times: pa.Array, exact: pa.Array) -> pa.Array:
    if pa.types.is_list(times.type):
        lengths = np.asarray(times.value_lengths().fill_null(0))
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
        elements = _repaired(times.flatten(), exact.flatten())
        return pa.ListArray.from_arrays(offsets, elements, times.type, mask=times.is_null())
    valid = np.asarray(times.is_valid())
    us = _numbers(times).copy()
    rest = _numbers(exact).view(np.uint64) - us.view(np.uint64) * np.uint64(1000)
    late = valid & (rest != 0) & ((us < _NS_MIN_US) | (us > _NS_MAX_US))
    us[late] -= _WRAP_US + (rest[late] < _WRAP_REST_NS)
    return pa.array(us, mask=~valid).cast(times.type)


def _numbers(times: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(times.cast(pa.int64()).fill_null(0))
