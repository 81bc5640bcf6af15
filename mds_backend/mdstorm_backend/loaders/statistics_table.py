"""Statistics as a table: in a terminal, and in a notebook."""

from __future__ import annotations

from html import escape
from io import StringIO
from typing import TYPE_CHECKING

from mdstorm_backend.base.recorded_work import BUSY
from mdstorm_backend.display import counted, human_bytes

if TYPE_CHECKING:
    from mdstorm_backend.loaders.statistics import Statistics

_WIDTH = 88
_PARTS = {
    "for downloads": "waited_for_downloads",
    "for the cache": "waited_for_cache",
    "for decoding": "waited_for_decoding",
    "for transforms": "waited_for_transforms",
    "for batching": "waited_for_batching",
}


def as_text(found: Statistics) -> str:
    """Return the table as plain text, and the verdict below it."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE, show_header=False, pad_edge=False)
    table.add_column()
    table.add_column()
    for name, value in lines(found):
        table.add_row(name, value)
    text = StringIO()
    console = Console(file=text, width=_WIDTH, color_system=None, markup=False, highlight=False)
    console.print(table)
    console.print(str(found.verdict))
    return "\n".join(line.rstrip() for line in text.getvalue().strip("\n").splitlines())


def as_html(found: Statistics) -> str:
    """Return the same as HTML."""
    rows = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in lines(found)
    )
    return f"<table><tbody>{rows}</tbody></table><p>{escape(str(found.verdict))}</p>"


def lines(found: Statistics) -> list[tuple[str, str]]:
    """Return the names and values of the table, without waits that did not occur."""
    whole = found.waited_seconds + found.training_seconds
    table = [
        ("delivered", ", ".join(delivered(found))),
        ("first batches", _seconds(found.startup_seconds)),
        (found.consumer, _seconds(found.training_seconds, whole)),
        ("waiting", _seconds(found.waited_seconds, whole)),
    ]
    for name, field in _PARTS.items():
        if getattr(found, field):
            table.append((f"  {name}", _seconds(getattr(found, field), whole)))
    busy = ", ".join(
        f"{field.removesuffix('_seconds')} {_seconds(getattr(found, field))}"
        for field in BUSY
        if getattr(found, field)
    )
    if busy:
        table.append(("threads were busy", busy))
    if found.downloads:
        rate = f"{human_bytes(found.download_rate)}/s"
        table.append(("downloads", f"{_files(found)}, {rate}"))
    table.append(("shards opened", f"{found.shards:,}, {human_bytes(found.shard_bytes)}"))
    if found.cache_hits or found.evictions:
        hits = counted(found.cache_hits, "hit")
        table.append(("cache", f"{hits}, {counted(found.evictions, 'eviction')}"))
    table.append(("ready ahead", f"{found.queue_depth:.1f} results"))
    return table


def delivered(found: Statistics) -> list[str]:
    """Return how much was delivered."""
    return [
        counted(found.passes, "pass", "passes"),
        counted(found.batches, "batch", "batches"),
        counted(found.rows, "row"),
    ]


def _files(found: Statistics) -> str:
    return f"{counted(found.downloads, 'file')}, {human_bytes(found.downloaded_bytes)}"


def _seconds(seconds: float, whole: float = 0.0) -> str:
    share = f" ({100 * seconds / whole:.0f} %)" if whole else ""
    return f"{seconds:,.2f} s{share}"
