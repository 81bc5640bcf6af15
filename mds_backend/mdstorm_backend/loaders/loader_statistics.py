"""Counts of yielded batches, and how to make training wait less for batches."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from textwrap import fill
from typing import Any

from mdstorm_backend.base.recorder import Recorder
from mdstorm_backend.display import Described, Description, counted, human_bytes

#: Waiting for less than this fraction of the time is negligible.
NEGLIGIBLE = 0.05
#: What helps, by the cause of most of the waiting.
ADVICE = {
    "downloads": (
        "raise cache_limit if it is smaller than the dataset; write smaller or compressed shards, "
        "or keep them on this machine (local); a StreamingDataset in the elastic order can also "
        "download further ahead (predownload)"
    ),
    "decoding": (
        "raise workers (workers_count of converters and readers), add worker processes "
        "(num_workers of a StreamingDataLoader), or read fewer columns"
    ),
    "transforms": (
        "vectorise the function (NumPy or Arrow, no loop over rows), or call it in processes "
        '(num_workers of a StreamingDataLoader, reader_pool_type="process" of converters and '
        "readers)"
    ),
    "batching": (
        "raise batch_size; set num_workers=0, or keep worker processes (persistent_workers); a "
        "loop that does nothing with the batches always waits for them"
    ),
    "nothing": "nothing needs to change",
    "unknown": "not enough batches yet",
}
_CAUSES = ("downloads", "decoding", "transforms", "batching")
_WIDTH = 88


@dataclass(frozen=True, repr=False)
class Statistics(Described):
    """Statistics of a loader so far, in this process and its workers.

    The difference ``later - earlier`` covers the time in between, for example an epoch. When
    printed or shown in a notebook, statistics are displayed as a small table.

    Attributes
    ----------
    batches, rows : int
        Batches and rows yielded. If TensorFlow reads them, they count once they have been read.
    waited_seconds : float
        Time from each request for a batch until it arrives, or the end does. If TensorFlow takes
        the batches itself, as in Keras, it requests them ahead, and training waits at most as long.
    training_seconds : float
        Time between batches, from the return of ``__next__`` to the next call.
    waited_for_downloads, waited_for_decoding, waited_for_transforms : float
        The parts of `waited_seconds` by cause. Work in the loop's own thread counts in full. A wait
        for a result of another thread or process is divided in proportion to the work behind that
        result. Downloads include retries, hash verification, and waiting for room in the cache or
        for a process that is downloading the same shard. Decoding includes decompression, reading
        mapped files and gathering rows. Transforms are `transform_spec`, predicates, ``collate_fn``
        and ``batch_map``.
    downloaded_bytes, download_seconds : int, float
        The stored sizes of shard files copied to this machine, and the time that this took, summed
        over all threads and processes, whether or not anything waited for it.
    skipped : int
        Samples skipped because they are damaged, with ``on_corrupt="skip"``.
    """

    batches: int = 0
    rows: int = 0
    waited_seconds: float = 0.0
    training_seconds: float = 0.0
    waited_for_downloads: float = 0.0
    waited_for_decoding: float = 0.0
    waited_for_transforms: float = 0.0
    downloaded_bytes: int = 0
    download_seconds: float = 0.0
    skipped: int = 0

    @classmethod
    def of(cls, recorder: Recorder, *, last_pass: bool = False) -> Statistics:
        """Return what a recorder has recorded, in all passes or in the one that began last."""
        found: Any = recorder.totals()
        before: Any = recorder.before
        return cls(**found) - cls(**before) if last_pass else cls(**found)

    @property
    def waited_for_batching(self) -> float:
        """The rest of `waited_seconds`.

        Starting threads and processes, converting columns to tensors, cutting blocks into batches,
        receiving batches from worker processes and moving them to a device.
        """
        rest = self.waited_for_downloads + self.waited_for_decoding + self.waited_for_transforms
        return max(self.waited_seconds - rest, 0.0)

    @property
    def seconds(self) -> float:
        """Total time in seconds: waiting and training."""
        return self.waited_seconds + self.training_seconds

    @property
    def waited_share(self) -> float:
        """Fraction of the time spent waiting, from 0 to 1."""
        return self.waited_seconds / (self.seconds or 1.0)

    @property
    def cause(self) -> str:
        """The cause of most of the waiting.

        ``"downloads"``, ``"decoding"``, ``"transforms"`` or ``"batching"``; ``"nothing"`` if
        waiting takes less than 5 % of the time, and ``"unknown"`` before the second batch.
        """
        if self.batches < 2:
            return "unknown"
        if self.waited_share < NEGLIGIBLE:
            return "nothing"
        return max(_CAUSES, key=self._waited_for)

    @property
    def verdict(self) -> str:
        """How long training waits, what for, and how to reduce that, in a sentence."""
        cause, found = self.cause, f"waiting takes {100 * self.waited_share:.0f} % of the time"
        if cause in _CAUSES:
            found += f", {100 * self._waited_for(cause) / self.seconds:.0f} % for {cause}"
        return f"{found}: {ADVICE[cause]}"

    @property
    def delivered(self) -> str:
        """The numbers of yielded batches and rows, as a string."""
        return f"{counted(self.batches, 'batch', 'batches')}, {counted(self.rows, 'row')}"

    def as_dict(self) -> dict[str, Any]:
        """Return all fields and the figures derived from them, by name."""
        derived = ("waited_for_batching", "seconds", "waited_share")
        return {**asdict(self), **{name: getattr(self, name) for name in derived}}

    def __sub__(self, other: Statistics) -> Statistics:
        if not isinstance(other, Statistics):
            return NotImplemented
        names = [field.name for field in fields(self)]
        return Statistics(**{name: getattr(self, name) - getattr(other, name) for name in names})

    def _waited_for(self, cause: str) -> float:
        seconds: float = getattr(self, f"waited_for_{cause}")
        return seconds

    def _table(self) -> list[tuple[str, str]]:
        """Return the table's rows as name-value pairs, without what did not occur."""
        waited = {f"  for {cause}": self._waited_for(cause) for cause in _CAUSES}
        shown = {"training": self.training_seconds, "waiting": self.waited_seconds}
        shown |= {name: seconds for name, seconds in waited.items() if seconds}
        table = [("yielded", self.delivered)]
        for name, seconds in shown.items():
            table.append(
                (name, f"{seconds:,.2f} s ({100 * seconds / (self.seconds or 1.0):.0f} %)")
            )
        if self.downloaded_bytes:
            size = human_bytes(self.downloaded_bytes)
            table.append(("downloads", f"{size} in {self.download_seconds:,.2f} s of all threads"))
        if self.skipped:
            table.append(("damaged", f"{counted(self.skipped, 'sample')} skipped"))
        return table

    def _mdstorm_description(self, *, full: bool) -> Description:
        line = [self.delivered, f"{100 * self.waited_share:.0f} % waiting"]
        return Description(line, [*self._table(), ("verdict", self.verdict)])

    def __str__(self) -> str:
        rows = self._table()
        width = max(len(name) for name, _ in rows)
        table = "\n".join(f" {name:<{width}}   {value}" for name, value in rows)
        return f"{table}\n\n{fill(self.verdict, _WIDTH)}"
