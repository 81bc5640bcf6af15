"""``mdstorm inspect`` and ``mdstorm head``: describe a dataset, and show its first rows."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import click
import numpy as np

from mdstorm.cli import _common
from mdstorm_backend.display import human_bytes
from mdstorm_backend.maintenance import Inspection
from mdstorm_backend.maintenance import head as first_rows
from mdstorm_backend.maintenance import inspect as inspect_dataset

__all__ = ["head", "inspect"]
#: Longer values are truncated in a table.
_LONGEST = 60


@click.command(
    epilog=_common.examples(
        "mdstorm inspect /data/events",
        "mdstorm inspect s3://bucket/events --format json",
    )
)
@_common.dataset_argument
@_common.storage_option
@_common.format_option
def inspect(url: str, storage_options: dict[str, Any], format_: str) -> None:
    """Describe the dataset at URL: its columns, shards and sizes.

    Only the index is read.
    """
    found = inspect_dataset(url, storage_options=storage_options)
    if format_ == "json":
        _common.write_json(found.to_json())
        return
    _common.write_table(found.url, ["property", "value"], _overview(found))
    _write_columns(found)


def _overview(found: Inspection) -> list[tuple[str, object]]:
    size, rows, stored = found.shard_bytes, found.shard_rows, found.stored_bytes
    entries: list[tuple[str, object]] = [
        ("rows", f"{found.rows:,}"),
        ("shards", f"{found.shards:,}"),
        ("bytes", f"{human_bytes(size.total)} ({size.total:,})"),
    ]
    if stored != size:
        saved = f"{stored.total / size.total:.0%}" if size.total else "-"
        entries.append(("stored", f"{human_bytes(stored.total)} ({stored.total:,}), {saved}"))
    entries += [
        ("rows of a shard", f"{rows.min:,} … {rows.median:,.0f} … {rows.max:,}"),
        ("bytes of a shard", " … ".join(map(human_bytes, (size.min, size.median, size.max)))),
        ("compression", _shares(found.compressions)),
        ("hashes", _shares(found.hashes)),
        ("size limit", _shares(_limits(found.size_limits))),
        ("logical schema", "yes" if found.logical_schema else "no: MDS encodings alone"),
        ("fingerprint", found.fingerprint),
    ]
    return entries


def _limits(limits: dict[str, int]) -> dict[str, int]:
    """Format limits in bytes for people; leave other limits as in the index."""
    return {
        f"{human_bytes(int(limit))} ({int(limit):,})" if limit.isdecimal() else limit: count
        for limit, count in limits.items()
    }


def _shares(counts: dict[str, int]) -> str:
    """Format the value that all shards share, or each value with its number of shards."""
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{value} ({count:,} shards)" for value, count in counts.items())


def _write_columns(found: Inspection) -> None:
    names = ["column", "encoding", "Spark type", "nullable", "nulls", "null elements"]
    rows = [
        (
            column.name,
            _shares(column.encodings),
            column.spark_type or "",
            {True: "yes", False: "no"}[column.nullable] if found.logical_schema else "",
            f"{column.null_count:,}",
            f"{column.element_null_count:,}",
        )
        for column in found.columns
    ]
    _common.write_table("columns", names, rows, numbers=names[-2:])


@click.command(epilog=_common.examples("mdstorm head /data/events -n 3 --columns id,label"))
@_common.dataset_argument
@click.option(
    "-n", "rows", type=click.IntRange(min=0), default=5, show_default=True, help="Rows to show."
)
@_common.columns_option("Names of the columns to show, separated by commas; by default all.")
@_common.storage_option
@_common.format_option
def head(
    url: str, rows: int, columns: list[str] | None, storage_options: dict[str, Any], format_: str
) -> None:
    """Show the first rows of the dataset at URL.

    In JSON, binary values, images and pickles are their stored bytes in base64.
    """
    found = first_rows(url, rows, columns=columns, storage_options=storage_options)
    shown = zip(*found.values(), strict=True)
    if format_ == "json":
        _common.write_json([dict(zip(found, map(_plain, row), strict=True)) for row in shown])
        return
    _common.write_table(url, found, (map(_one_line, row) for row in shown))


def _one_line(value: object) -> str:
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    text = " ".join(("null" if value is None else str(value)).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: NaN and infinities as text, dates and decimals as well."""
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
