"""Say in words what training waits for, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mdstorm_backend.display import human_bytes

if TYPE_CHECKING:
    from mdstorm_backend.loaders.statistics import Statistics

#: Waiting below this part of the time is nothing to care about.
NEGLIGIBLE = 0.05
#: From this part of the time on the link is busy all the time.
_SATURATED = 0.9
_CAUSES = ("downloads", "cache", "decoding", "transforms", "batching")

_MORE_THREADS = "raise workers (workers_count of converters and readers)"
_MORE_PROCESSES = "num_workers of a StreamingDataLoader"
_REMEDIES = {
    "cache": (
        "threads and processes wait for room, or for each other's downloads: raise cache_limit"
    ),
    "decoding": f"{_MORE_THREADS}, add worker processes ({_MORE_PROCESSES}), or read fewer columns",
    "transforms": (
        "vectorise the function (NumPy or Arrow, no loop over rows), or call it in processes "
        f'({_MORE_PROCESSES}, reader_pool_type="process" of converters and readers)'
    ),
    "batching": (
        "raise batch_size; a pass over the batches that does nothing else always waits for them"
    ),
    "startup": (
        "write smaller shards (size_limit, parquet_row_group_size_bytes of converters), or keep "
        "them on this machine (local)"
    ),
}
_KEPT_PROCESSES = "keep worker processes (persistent_workers), "
_FOR = {
    "downloads": "downloads",
    "cache": "the cache",
    "decoding": "decoding",
    "transforms": "transforms",
    "batching": "batches to be put together",
}


@dataclass(frozen=True)
class Verdict:
    """What is waited for.

    Attributes
    ----------
    cause : str
        ``"nothing"``, ``"startup"``, ``"downloads"``, ``"cache"``, ``"decoding"``,
        ``"transforms"``, ``"batching"``, or ``"unknown"`` before the second batch.
    text : str
        The verdict as a sentence, with what to do.
    """

    cause: str
    text: str

    def __str__(self) -> str:
        return self.text


def verdict_on(found: Statistics) -> Verdict:
    """Return the verdict.

    Below 5 % of all the time nothing is waited for. Otherwise, if the first batches took longer
    than all other waiting, it is the start, and what is to be done about it follows from what took
    half of that; else the cause with the largest part of the waiting. It is the cache and not
    downloads if half of the downloads brought what had been evicted.
    """
    if found.batches <= found.passes:
        return Verdict("unknown", "too few batches were delivered to tell")
    waiting = found.startup_seconds + found.waited_seconds
    if waiting < NEGLIGIBLE * found.seconds:
        return Verdict("nothing", f"{found.consumer} does not wait ({_percent(waiting, found)})")
    if found.startup_seconds > found.waited_seconds:
        return Verdict("startup", _startup(found))
    cause = max(_CAUSES, key=lambda cause: _waited_for(found, cause))
    opening = _opening(found, cause)
    if cause == "downloads" and 2 * found.downloaded_again >= found.downloads > 0:
        again = f"{found.downloaded_again} of {found.downloads} brought back what was evicted"
        return Verdict("cache", f"{opening}, and {again}: raise cache_limit")
    remedy = _of_downloads(found) if cause == "downloads" else _REMEDIES[cause]
    return Verdict(cause, f"{opening}: {remedy}")


def _started_for(found: Statistics, cause: str) -> float:
    seconds: float = getattr(found, f"startup_for_{cause}")
    return seconds


def _waited_for(found: Statistics, cause: str) -> float:
    seconds: float = getattr(found, f"waited_for_{cause}")
    return seconds


def _percent(seconds: float, found: Statistics) -> str:
    return f"{100 * seconds / found.seconds:.0f} %"


def _startup(found: Statistics) -> str:
    mean = found.startup_seconds / max(found.passes, 1)
    opening = (
        f"{found.consumer} starts slowly: the first batch of a pass takes {_duration(mean)}, "
        f"{_percent(found.startup_seconds, found)} of the time"
    )
    cause = max(_CAUSES[:-1], key=lambda cause: _started_for(found, cause))
    if 2 * _started_for(found, cause) < found.startup_seconds:
        return f"{opening}: {_KEPT_PROCESSES if found.workers else ''}{_REMEDIES['startup']}"
    remedy = _REMEDIES["startup" if cause == "downloads" else cause]
    return f"{opening}, most of it for {_FOR[cause]}: {remedy}"


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1000 * seconds:.0f} ms"


def _opening(found: Statistics, cause: str) -> str:
    """Say how long is waited, and for what most of it."""
    whole = found.waited_seconds + found.training_seconds
    waited, part = found.waited_seconds / whole, _waited_for(found, cause) / whole
    return (
        f"{found.consumer} waits {100 * waited:.0f} % of the time, "
        f"{100 * part:.0f} % for {_FOR[cause]}"
    )


def _of_downloads(found: Statistics) -> str:
    """Say whether the link is the limit, or what is asked of it."""
    link = f"the link gives {human_bytes(found.download_rate)}/s"
    if found.downloading_share >= _SATURATED:
        return (
            f"{link} and is never idle; compress the shards, or keep them on this machine (local)"
        )
    idle = f"{link} and is idle {100 * (1 - found.downloading_share):.0f} % of the time"
    if found.order == "elastic":
        return f"raise predownload; {idle}"
    return f'{idle}: order="elastic" downloads further ahead, and more with predownload'
