"""Counts of yielded batches, and how to make training wait less for batches.

`Statistics` holds the numbers. `PassRecorders` keeps the recorders of a loader's passes, which the
numbers are computed from.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from textwrap import fill
from typing import Any

from mdstorm_backend.base.recorder import BUSY, Recorder
from mdstorm_backend.display import Described, Description, counted, human_bytes

_logger = logging.getLogger(__name__)

#: Name of the consumer if TensorFlow takes the batches, rather than a Python loop.
PIPELINE = "TensorFlow's input pipeline"
LOOP = "training"
#: Waiting for less than this fraction of the time is negligible.
NEGLIGIBLE = 0.05
#: A link that is busy for at least this fraction of the time counts as always busy.
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
        "raise batch_size; a loop that does nothing with the batches always waits for them"
    ),
}
_OF_STARTUP = (
    "write smaller shards (size_limit, parquet_row_group_size_bytes of converters), or keep them "
    "on this machine (local)"
)
_KEPT_PROCESSES = "keep worker processes (persistent_workers), "
_NOT_SUMMED = ("consumer", "order", "workers")
_WIDTH = 88


@dataclass(frozen=True, repr=False)
class Statistics(Described):
    """Statistics of a loader so far: sums over its passes, in this process and its workers.

    The difference ``later - earlier`` covers the time in between, for example an epoch. When
    printed or shown in a notebook, statistics are displayed as a small table.

    Attributes
    ----------
    consumer : str
        The consumer of the batches: ``"training"``, which is any code that runs between two
        batches, or ``"TensorFlow's input pipeline"`` if TensorFlow takes them itself, as in Keras.
        The pipeline requests batches ahead, so training waits at most as long as the pipeline.
    order : str
        ``"exact"`` or ``"elastic"``.
    workers : int
        Number of reading worker processes; 0 if threads of this process read.
    passes, batches, rows : int
        Iterations that began, and the batches and rows that they yielded.
    startup_seconds : float
        Waiting for the first batch of each pass, from the request until it arrives.
    waited_seconds : float
        Waiting for all other batches, while the consumer was blocked in ``__next__``. Waiting for
        the end of a pass is included.
    training_seconds : float
        Time between batches, from the return of ``__next__`` to the next call.
    waited_for_downloads, waited_for_cache, waited_for_decoding, waited_for_transforms : float
        The parts of `waited_seconds` by cause. Work in the consumer's own thread counts in full. A
        wait for a result of another thread or process is divided in proportion to the work behind
        that result. Downloads include retries and hash verification. The cache covers waiting for
        room, and for a process that is downloading the same shard. Decoding includes decompression,
        reading mapped files and gathering rows. Transforms are `transform_spec`, predicates,
        ``collate_fn`` and ``batch_map``.
    waited_for_batching : float
        The rest: converting columns to tensors, cutting blocks into batches, receiving batches from
        worker processes and moving them to a device. The five parts add up to `waited_seconds`.
    download_seconds, cache_seconds, decode_seconds, transform_seconds : float
        Time spent on the same work, summed over all threads and processes, whether or not anything
        waited for it.
    downloading_seconds : float
        Time during which at least one download was in progress, summed over processes.
    downloads, downloaded_bytes : int
        Shard files copied to this machine, and their stored sizes.
    downloaded_again : int
        Downloads of shards that the same process had downloaded before and that had been evicted.
    cache_hits : int
        Shards that were opened from a cache directory without a download.
    evictions : int
        Shards removed to make room.
    shards, shard_bytes : int
        Shards opened, and their uncompressed bytes. A shard that stays open counts once.
    results, results_ready : int
        How often the reader took a result that threads had prepared (blocks of batches, opened
        shards), and how many results were ready each time, summed: see `queue_depth`.
    skipped : int
        Samples skipped because they are damaged, with ``on_corrupt="skip"``.
    """

    consumer: str = LOOP
    order: str = "exact"
    workers: int = 0
    passes: int = 0
    batches: int = 0
    rows: int = 0
    startup_seconds: float = 0.0
    waited_seconds: float = 0.0
    training_seconds: float = 0.0
    waited_for_downloads: float = 0.0
    waited_for_cache: float = 0.0
    waited_for_decoding: float = 0.0
    waited_for_transforms: float = 0.0
    waited_for_batching: float = 0.0
    download_seconds: float = 0.0
    cache_seconds: float = 0.0
    decode_seconds: float = 0.0
    transform_seconds: float = 0.0
    downloading_seconds: float = 0.0
    downloads: int = 0
    downloaded_bytes: int = 0
    downloaded_again: int = 0
    cache_hits: int = 0
    evictions: int = 0
    shards: int = 0
    shard_bytes: int = 0
    results: int = 0
    results_ready: int = 0
    skipped: int = 0

    @property
    def seconds(self) -> float:
        """Total time in seconds: startup, waiting and training."""
        return self.startup_seconds + self.waited_seconds + self.training_seconds

    @property
    def waited_share(self) -> float:
        """Fraction of the time after the first batches spent waiting, from 0 to 1."""
        return _ratio(self.waited_seconds, self.waited_seconds + self.training_seconds)

    @property
    def download_rate(self) -> float:
        """Bytes per second while downloads are in progress; 0 if nothing was downloaded.

        Worker processes are assumed to download at the same time.
        """
        return _ratio(self.downloaded_bytes, self.downloading_seconds) * max(self.workers, 1)

    @property
    def downloading_share(self) -> float:
        """Fraction of the total time with a download in progress, from 0 to 1."""
        return min(_ratio(self.downloading_seconds, self.seconds * max(self.workers, 1)), 1.0)

    @property
    def queue_depth(self) -> float:
        """Mean number of results ready when one was taken; near 0 if reading is slow."""
        return _ratio(self.results_ready, self.results)

    @property
    def verdict(self) -> Verdict:
        """The main cause of waiting, and how to reduce it; ``str(verdict)`` is a sentence.

        Waiting for less than 5 % of the total time does not count. Otherwise, the cause is startup
        if the first batches took longer than all other waiting, or else the cause with the largest
        share of the waiting. Downloads are attributed to the cache if at least half of them brought
        back evicted shards.
        """
        if self.batches <= self.passes:
            return Verdict("unknown", "not enough batches yet")
        waiting = self.startup_seconds + self.waited_seconds
        if waiting < NEGLIGIBLE * self.seconds:
            return Verdict("nothing", f"{self.consumer} does not wait ({_percent(waiting, self)})")
        if self.startup_seconds > self.waited_seconds:
            return Verdict("startup", _startup(self))
        cause = max(_CAUSES, key=lambda cause: _waited_for(self, cause))
        opening = _opening(self, cause)
        if cause == "batching" and self._sending_seconds:
            sending, reading = _seconds(self._sending_seconds), _seconds(_reading(self))
            return Verdict(
                cause,
                f"{opening}: set num_workers=0. Reading these batches took {reading}, and sending "
                f"them between processes {sending}",
            )
        if cause == "downloads" and 2 * self.downloaded_again >= self.downloads > 0:
            again = f"{self.downloaded_again} of {self.downloads} were for evicted shards"
            return Verdict("cache", f"{opening}, and {again}: raise cache_limit")
        remedy = _of_downloads(self) if cause == "downloads" else _REMEDIES[cause]
        return Verdict(cause, f"{opening}: {remedy}")

    @property
    def _sending_seconds(self) -> float:
        """Seconds spent receiving batches from workers; 0 if reading the batches took longer."""
        if not self.workers:
            return 0.0
        sending = self.waited_for_batching
        return sending if sending > _reading(self) else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return all fields and the figures derived from them, by name."""
        derived = ("seconds", "waited_share", "download_rate", "downloading_share", "queue_depth")
        return {**asdict(self), **{name: getattr(self, name) for name in derived}}

    def __add__(self, other: Statistics) -> Statistics:
        if not isinstance(other, Statistics):
            return NotImplemented
        return self._joined(other, 1)

    def __sub__(self, other: Statistics) -> Statistics:
        if not isinstance(other, Statistics):
            return NotImplemented
        return self._joined(other, -1)

    def _joined(self, other: Statistics, sign: int) -> Statistics:
        sums = {
            name: getattr(self, name) + sign * getattr(other, name)
            for name in (field.name for field in fields(self))
            if name not in _NOT_SUMMED
        }
        return replace(self, **sums)

    @property
    def delivered(self) -> str:
        """The numbers of yielded passes, batches and rows, as a string."""
        counts = [counted(self.passes, "pass", "passes"), counted(self.batches, "batch", "batches")]
        return ", ".join([*counts, counted(self.rows, "row")])

    def _mdstorm_description(self, *, full: bool) -> Description:
        line = [self.delivered, f"{100 * self.waited_share:.0f} % waiting"]
        return Description(line, [*_table(self), ("verdict", str(self.verdict))])

    def __str__(self) -> str:
        rows = _table(self)
        width = max(len(name) for name, _ in rows)
        table = "\n".join(f" {name:<{width}}   {value}" for name, value in rows)
        return f"{table}\n\n{fill(str(self.verdict), _WIDTH)}"


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _table(found: Statistics) -> list[tuple[str, str]]:
    """Return the table's rows as name-value pairs, without waits that did not occur."""
    whole = found.waited_seconds + found.training_seconds
    table = [
        ("yielded", found.delivered),
        ("first batches", _seconds(found.startup_seconds)),
        (found.consumer, _seconds(found.training_seconds, whole)),
        ("waiting", _seconds(found.waited_seconds, whole)),
    ]
    for cause in _CAUSES:
        if waited := _waited_for(found, cause):
            table.append((f"  for {_named(cause)}", _seconds(waited, whole)))
    busy = ", ".join(
        f"{field.removesuffix('_seconds')} {_seconds(getattr(found, field))}"
        for field in BUSY
        if getattr(found, field)
    )
    if busy:
        table.append(("threads were busy", busy))
    if found.skipped:
        table.append(("damaged", f"{counted(found.skipped, 'sample')} skipped"))
    if found.downloads:
        files = counted(found.downloads, "file")
        rate = f"{human_bytes(found.download_rate)}/s"
        table.append(("downloads", f"{files}, {human_bytes(found.downloaded_bytes)}, {rate}"))
    table.append(("shards opened", f"{found.shards:,}, {human_bytes(found.shard_bytes)}"))
    if found.cache_hits or found.evictions:
        hits = counted(found.cache_hits, "hit")
        table.append(("cache", f"{hits}, {counted(found.evictions, 'eviction')}"))
    ahead = f"{found.queue_depth:.1f} results" if found.results else "nothing, read when requested"
    table.append(("ready ahead", ahead))
    return table


def _seconds(seconds: float, whole: float = 0.0) -> str:
    share = f" ({100 * seconds / whole:.0f} %)" if whole else ""
    return f"{seconds:,.2f} s{share}"


@dataclass(frozen=True)
class Verdict:
    """The main cause of waiting, and a sentence that describes it.

    Attributes
    ----------
    cause : str
        ``"nothing"``, ``"startup"``, ``"downloads"``, ``"cache"``, ``"decoding"``,
        ``"transforms"``, ``"batching"``, or ``"unknown"`` before the second batch.
    text : str
        The verdict as a sentence, with advice.
    """

    cause: str
    text: str

    def __str__(self) -> str:
        return self.text


def _waited_for(found: Statistics, cause: str) -> float:
    seconds: float = getattr(found, f"waited_for_{cause}")
    return seconds


def _named(cause: str) -> str:
    return "the cache" if cause == "cache" else cause


def _percent(seconds: float, found: Statistics) -> str:
    return f"{100 * seconds / found.seconds:.0f} %"


def _startup(found: Statistics) -> str:
    mean = found.startup_seconds / max(found.passes, 1)
    duration = f"{mean:.1f} s" if mean >= 1 else f"{1000 * mean:.0f} ms"
    opening = (
        f"{found.consumer} starts slowly: the first batch of a pass takes {duration}, "
        f"{_percent(found.startup_seconds, found)} of the time"
    )
    if mean < 1 and not found.workers:
        return f"{opening}, which matters less in a longer pass"
    return f"{opening}: {_KEPT_PROCESSES if found.workers else ''}{_OF_STARTUP}"


def _opening(found: Statistics, cause: str) -> str:
    """Return a phrase with the fraction of time spent waiting, and the part due to `cause`."""
    whole = found.waited_seconds + found.training_seconds
    waited, part = found.waited_seconds / whole, _waited_for(found, cause) / whole
    what = "batches to be put together" if cause == "batching" else _named(cause)
    return f"{found.consumer} waits {100 * waited:.0f} % of the time, {100 * part:.0f} % for {what}"


def _reading(found: Statistics) -> float:
    """Return the seconds spent reading, summed over threads and processes."""
    seconds: float = sum(getattr(found, name) for name in BUSY)
    return seconds


def _of_downloads(found: Statistics) -> str:
    """Return advice on downloads, depending on whether the link is always busy."""
    link = f"the link gives {human_bytes(found.download_rate)}/s"
    remedy = "compress the shards, or keep them on this machine (local)"
    if found.downloading_share >= _SATURATED:
        return f"{link} and is never idle; {remedy}"
    return (
        f"{link} and is idle {100 * (1 - found.downloading_share):.0f} % of the time; {remedy}; a "
        "StreamingDataset in the elastic order can also download further ahead (predownload)"
    )


class PassRecorders:
    """The recorders of a loader's passes. Copies, including pickled ones, start empty.

    Parameters
    ----------
    clock : callable
        Returns the time in seconds.

    Attributes
    ----------
    last : Recorder or None
        The recorder of the latest pass.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        #: The sum of the finished passes, and the recorders of the unfinished ones. The tuple is
        #: replaced as a whole, since other threads may be reading it.
        self._passes: tuple[Statistics, list[Recorder]] = (Statistics(), [])
        self._described: dict[str, Any] = {}
        #: The time at which the next pass's first batch was requested; None once the pass begins.
        self._requested: float | None = None
        self.last: Recorder | None = None
        self._has_warned = False

    def __reduce__(self) -> tuple[Any, ...]:
        return PassRecorders, ()

    def record_request(self) -> None:
        """Record that the next pass's first batch is requested, before the pass begins."""
        self._requested = self._clock()

    def begin(
        self, order: str = "exact", workers: int = 0, *, recorder: Recorder | None = None
    ) -> Recorder:
        """Return the recorder for a pass that begins: `recorder`, or a new one."""
        begun = recorder or Recorder(self._clock, self._requested)
        self._warn_about_workers()
        over, running = self._passes
        going_on = [begun]
        for other in running:
            if other.is_over:
                over += _statistics(other)
            else:
                going_on.append(other)
        self._passes = over, going_on
        self._described = {"order": order, "workers": workers}
        self.last, self._requested = begun, None
        return begun

    def _warn_about_workers(self) -> None:
        """Log once, when another pass begins, if worker processes slowed down the last pass."""
        if self._has_warned or not self._described.get("workers"):
            return
        if self.last is not None and self.last.is_over:
            last = self.statistics(last_pass=True)
            if last._sending_seconds and last.verdict.cause == "batching":
                self._has_warned = True
                _logger.warning("%s", last.verdict)

    def statistics(self, *, last_pass: bool = False) -> Statistics:
        """Return the sum of all passes, or the statistics of the last one alone."""
        total, chosen = self._passes
        last = self.last
        if last is None:
            return Statistics()
        if last_pass:
            total, chosen = Statistics(), [last]
        for recorder in chosen:
            total += _statistics(recorder)
        return replace(total, consumer=last.consumer, **self._described)


def _statistics(recorder: Recorder) -> Statistics:
    return Statistics(**recorder.totals())  # type: ignore[arg-type]
