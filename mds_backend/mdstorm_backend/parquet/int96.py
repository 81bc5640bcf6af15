"""INT96 timestamps, which Arrow reads in a unit of the caller's choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

__all__ = ["with_times_repaired"]

# 2**64 nanoseconds are _WRAP_US microseconds and _WRAP_REST_NS nanoseconds.
_WRAP_US, _WRAP_REST_NS = divmod(2**64, 1000)
_NS_MIN_US, _NS_MAX_US = -(2**63) // 1000, (2**63 - 1) // 1000


def with_times_repaired(
    columns: Mapping[str, pa.Array],
    metadata: pq.FileMetaData,
    read_as_ns: Callable[[list[str]], pa.Table],
) -> dict[str, pa.Array]:
    """Repair times before 1970 in columns whose INT96 timestamps were read as microseconds.

    Arrow 12 to 18, at least, write the time of day of such times as a negative number, which the
    format takes for an unsigned one: they come out 2**64 nanoseconds late. Nanoseconds, which
    Arrow keeps modulo 2**64, tell them from times that are meant: they differ from the
    microseconds only where a time was late, or has fractions of microseconds; and Arrow writes
    such fractions only within the range of nanoseconds, 1677 to 2262. So a time that differs and
    is out of that range was late.

    What cannot be told stays: times of the years 1093 to 1677, and one in a thousand of the times
    with fractions of microseconds.

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
    if (metadata.created_by or "").startswith("parquet-cpp-arrow"):
        suspects = [name for name in _int96_columns(metadata) if _is_suspect(columns.get(name))]
        if suspects:
            exact = read_as_ns(suspects)
            for name in suspects:
                repaired[name] = _repaired(columns[name], exact[name])
    return repaired


def _int96_columns(metadata: pq.FileMetaData) -> list[str]:
    columns = (metadata.schema.column(number) for number in range(metadata.num_columns))
    return [column.path for column in columns if column.physical_type == "INT96"]


def _is_suspect(times: pa.Array | None) -> bool:
    if times is None or not pa.types.is_timestamp(times.type):
        return False
    bounds = pc.min_max(times.cast(pa.int64()))
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    return low is not None and (low < _NS_MIN_US or high > _NS_MAX_US)


def _repaired(times: pa.Array, exact: pa.ChunkedArray) -> pa.Array:
    valid = np.asarray(times.is_valid())
    us = _numbers(times).copy()
    rest = _numbers(exact).view(np.uint64) - us.view(np.uint64) * np.uint64(1000)
    late = valid & (rest != 0) & ((us < _NS_MIN_US) | (us > _NS_MAX_US))
    us[late] -= _WRAP_US + (rest[late] < _WRAP_REST_NS)
    return pa.array(us, mask=~valid).cast(times.type)


def _numbers(times: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.int64]:
    numbers = times.cast(pa.int64()).fill_null(0)
    return numbers.to_numpy() if isinstance(numbers, pa.ChunkedArray) else np.asarray(numbers)
