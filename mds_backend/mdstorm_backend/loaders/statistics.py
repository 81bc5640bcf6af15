"""`Statistics`: what a loader has delivered, and what was waited for."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from mdstorm_backend.loaders.statistics_table import as_html, as_text, delivered
from mdstorm_backend.loaders.verdict import Verdict, verdict_on

#: Who takes the batches where TensorFlow takes them, and no loop of Python code.
PIPELINE = "TensorFlow's input pipeline"
LOOP = "training"


@dataclass(frozen=True)
class Statistics:
    """What a loader has done so far: sums over its passes, in this process and its workers.

    The difference of two of them, ``later - earlier``, is what happened in between: in an epoch,
    say. Printed it is a small table, also in a notebook.

    Attributes
    ----------
    consumer : str
        Who takes the batches: ``"training"``, which is whatever code runs between two batches, or
        ``"TensorFlow's input pipeline"`` where TensorFlow takes them by itself, as in Keras. The
        pipeline asks ahead, so its waiting is the most that training may have waited.
    order : str
        ``"exact"`` or ``"elastic"``.
    workers : int
        Worker processes that read; 0 if threads of this process do.
    passes, batches, rows : int
        Iterations that were begun, and what they delivered.
    startup_seconds : float
        Waiting for the first batch of each pass: from when it was asked for to when it was there.
    waited_seconds : float
        Waiting for all further batches: the consumer was blocked in ``__next__``. That a pass has
        ended is waited for as well.
    training_seconds : float
        Between batches: from when ``__next__`` returned one to when the next one was asked for.
    waited_for_downloads, waited_for_cache, waited_for_decoding, waited_for_transforms : float
        Which part of `waited_seconds` was for what. Work that the consumer's own thread does counts
        as it is; a wait for a result of another thread or process is divided in the proportion in
        which that result's own making was busy. Downloads include retries and the check of hashes;
        the cache, waiting for room, and for a process that downloads the same shard; decoding,
        decompression, reading mapped files and gathering rows; transforms, `transform_spec`,
        predicates, ``collate_fn`` and ``batch_map``.
    waited_for_batching : float
        The rest: columns become tensors, blocks are cut into batches, batches come from worker
        processes and go to a device. The five are `waited_seconds`.
    startup_for_downloads, startup_for_cache, startup_for_decoding, startup_for_transforms : float
        The same parts of `startup_seconds`. Its rest has no field: opening the dataset, starting
        threads and processes.
    download_seconds, cache_seconds, decode_seconds, transform_seconds : float
        Busy with the same things, summed over all threads and processes, whether anybody waited.
    downloading_seconds : float
        In which at least one download was under way, summed over processes.
    downloads, downloaded_bytes : int
        Shard files brought to this machine, and their sizes as they are stored.
    downloaded_again : int
        Those of them that the same process had brought before: they had been evicted.
    cache_hits : int
        Shards that were opened without a download from a directory of the cache.
    evictions : int
        Shards removed to make room.
    shards, shard_bytes : int
        Shards opened, and their bytes, uncompressed. One that stayed open is not opened again.
    results, results_ready : int
        How often the reader took a result that threads made ahead (blocks of batches, opened
        shards), and how many were ready then, all together: see `queue_depth`.
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
    startup_for_downloads: float = 0.0
    startup_for_cache: float = 0.0
    startup_for_decoding: float = 0.0
    startup_for_transforms: float = 0.0
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

    @property
    def seconds(self) -> float:
        """Seconds of all: starting, waiting and training."""
        return self.startup_seconds + self.waited_seconds + self.training_seconds

    @property
    def waited_share(self) -> float:
        """Part of the time after the first batches that was spent waiting, from 0 to 1."""
        return _ratio(self.waited_seconds, self.waited_seconds + self.training_seconds)

    @property
    def download_rate(self) -> float:
        """Bytes per second while anything is downloaded; 0 if nothing was.

        Worker processes are taken to download at the same time.
        """
        return _ratio(self.downloaded_bytes, self.downloading_seconds) * max(self.workers, 1)

    @property
    def downloading_share(self) -> float:
        """Part of all the time in which anything was downloaded, from 0 to 1."""
        return min(_ratio(self.downloading_seconds, self.seconds * max(self.workers, 1)), 1.0)

    @property
    def queue_depth(self) -> float:
        """Mean number of results that were ready when one was taken; near 0 the reader is late."""
        return _ratio(self.results_ready, self.results)

    @property
    def verdict(self) -> Verdict:
        """What training waits for, and what to do about it; ``str(verdict)`` is a sentence."""
        return verdict_on(self)

    def as_dict(self) -> dict[str, Any]:
        """Return all fields, and the figures that follow from them, by name."""
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

    def __repr__(self) -> str:
        line = [*delivered(self), f"{100 * self.waited_share:.0f} % waiting"]
        return f"Statistics({', '.join(line)})"

    def __str__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        return as_html(self)


_NOT_SUMMED = ("consumer", "order", "workers")


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
