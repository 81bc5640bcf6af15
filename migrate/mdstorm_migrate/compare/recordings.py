"""Read recordings from files, and join them across ranks and shares."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from glob import escape, glob
from typing import Any

from mdstorm.errors import InvalidArgumentError
from mdstorm_migrate.compare.recorder import FORMAT, SEVERAL

#: Digests are sums modulo this number.
MODULUS = 2**128
#: The numbers of a column in a recording without projections.
UNPROJECTED = ("minimum", "maximum", "sum", "magnitude", "squares")


@dataclass(frozen=True)
class RecordedColumn:
    """The properties of one column in one pass. ``recorder.py`` describes the digests."""

    dtypes: frozenset[str]
    shapes: frozenset[str]
    nulls: int
    digest: int
    #: The order-dependent digest; None for rows from several shares or epochs.
    ordered: int | None
    #: The digest of whole rows without this column.
    rest: int
    #: Minimum, maximum, sum, sum of magnitudes, sum of squares, and the sums of the projections of
    #: rows, which older recorders did not write; None for non-numeric values.
    numbers: tuple[float, ...] | None

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RecordedColumn:
        """Read a column from a recording."""
        numbers = None
        if "sum" in value:
            numbers = *(value[key] for key in UNPROJECTED), *value.get("projected", ())
        return cls(
            frozenset(value["dtypes"]),
            frozenset(value["shapes"]),
            value["nulls"],
            int(value["digest"], 16),
            int(value["ordered"], 16),
            int(value["rest"], 16),
            None if numbers is None else tuple(map(float, numbers)),
        )

    @property
    def is_projected(self) -> bool:
        """Whether the sums show where in a row numbers stand, which they need not for scalars."""
        return self.shapes <= {"[]"} or len(self.numbers or ()) > len(UNPROJECTED)

    def repeated(self, times: int) -> RecordedColumn:
        """Return this column as if its rows had been read several times."""
        numbers = self.numbers
        if numbers is not None:
            low, high, *sums = numbers
            numbers = (low, high, *(each * times for each in sums))
        return replace(
            self,
            nulls=self.nulls * times,
            digest=self.digest * times % MODULUS,
            ordered=None,
            rest=self.rest * times % MODULUS,
            numbers=numbers,
        )

    def joined(self, other: RecordedColumn) -> RecordedColumn:
        """Return a column with the rows of both columns."""
        numbers = self.numbers or other.numbers
        if self.numbers and other.numbers:
            (low, high, *sums), (low2, high2, *sums2) = self.numbers, other.numbers
            # Projections are left out if only one side has them.
            sums = [a + b for a, b in zip(sums, sums2, strict=False)]
            numbers = (min(low, low2), max(high, high2), *sums)
        return RecordedColumn(
            self.dtypes | other.dtypes,
            self.shapes | other.shapes,
            self.nulls + other.nulls,
            (self.digest + other.digest) % MODULUS,
            None,
            (self.rest + other.rest) % MODULUS,
            numbers,
        )


@dataclass(frozen=True)
class Data:
    """Counts and digests of one complete pass."""

    rows: int
    #: Number of batches of each size.
    sizes: Mapping[str, int]
    #: The digest of whole rows.
    digest: int
    columns: Mapping[str, RecordedColumn]
    examples: Sequence[Mapping[str, Any]] = ()

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Data:
        """Read the data for one pass from a recording."""
        columns = {name: RecordedColumn.from_json(each) for name, each in value["columns"].items()}
        data = cls(
            value["rows"],
            value["sizes"],
            int(value["digest"], 16),
            columns,
            value.get("examples", ()),
        )
        # A single epoch represents all epochs if the program did not read them to the end.
        times = value.get("times", 1)
        return data if times == 1 else data.repeated(times)

    def repeated(self, times: int) -> Data:
        """Return this data as if its rows had been read several times."""
        columns = {name: column.repeated(times) for name, column in self.columns.items()}
        # Batches span epochs, so their sizes are unknown.
        sizes = {SEVERAL: sum(self.sizes.values()) * times}
        digest = self.digest * times % MODULUS
        return replace(self, rows=self.rows * times, sizes=sizes, digest=digest, columns=columns)

    def joined(self, other: Data) -> Data:
        """Return data with the rows of both objects."""
        columns = dict(self.columns)
        for name, column in other.columns.items():
            columns[name] = columns[name].joined(column) if name in columns else column
        names = {*self.sizes, *other.sizes}
        return Data(
            self.rows + other.rows,
            {name: self.sizes.get(name, 0) + other.sizes.get(name, 0) for name in names},
            (self.digest + other.digest) % MODULUS,
            columns,
            [*self.examples, *other.examples],
        )


@dataclass(frozen=True)
class RecordedLoader:
    """One loader in a program, combined from its shares if it has several."""

    kind: str
    file: str
    function: str
    call: int
    arguments: Mapping[str, Any]
    #: For each pass that the program made: the numbers of batches and rows, and whether the pass
    #: was complete.
    passes: Sequence[tuple[int, int, bool]]
    data: Data | None
    note: str = ""
    #: The numbers of the shares that this loader combines.
    shards: frozenset[int] = frozenset()

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RecordedLoader:
        """Read a loader from a recording."""
        reader = value.get("reader", {"arguments": {}})
        arguments = {**reader["arguments"], **value["arguments"]}
        shard = arguments.get("cur_shard")
        data = value.get("data", {})
        return cls(
            value["kind"],
            value["file"],
            value["function"],
            value["call"],
            arguments,
            [(batches, rows, complete) for batches, rows, complete in value["passes"]],
            # Version 0.1 wrote the data that it could hash, with a note about the rest.
            Data.from_json(data) if data and "note" not in data else None,
            value.get("note") or data.get("note", ""),
            frozenset() if not isinstance(shard, int) else frozenset({shard}),
        )

    @property
    def site(self) -> tuple[str, str, str]:
        """Kind, file and function. Calls are numbered separately for each combination."""
        return self.kind, self.file, self.function

    @property
    def key(self) -> tuple[str, str, str, int]:
        """The key for matching loaders across recordings."""
        return *self.site, self.call

    @property
    def is_share(self) -> bool:
        """Whether the loader reads only a share of the rows."""
        return self.arguments.get("cur_shard") is not None

    @property
    def missing_shards(self) -> list[int]:
        """The shares that were not recorded."""
        count = self.arguments.get("shard_count")
        found = range(count) if isinstance(count, int) and self.shards else range(0)
        return sorted({*found} - self.shards)

    def joined(self, other: RecordedLoader) -> RecordedLoader:
        """Return a loader that reads the rows of both loaders."""
        both = self.data is not None and other.data is not None
        data = self.data.joined(other.data) if self.data and other.data else None
        note = "" if both else self.note or other.note
        return replace(self, data=data, note=note, shards=self.shards | other.shards)


@dataclass(frozen=True)
class Recording:
    """The data that a program read in each run, with all ranks combined."""

    path: str
    program: str
    libraries: Mapping[str, str]
    ranks: int
    #: The loaders of each run, by their keys.
    runs: Sequence[Mapping[tuple[str, str, str, int], RecordedLoader]]
    #: How the first failed run ended; None if all runs succeeded.
    ended: str | None = None

    @property
    def library(self) -> str:
        """Name and version of the recorded library."""
        for name in ("mdstorm", "petastorm"):
            if name in self.libraries:
                return f"{name} {self.libraries[name]}"
        return "no library"


@dataclass
class _Shares:
    """The shares of one loader, gathered from all ranks and from calls on the same rank."""

    loader: RecordedLoader
    taken: set[tuple[int, object]] = field(default_factory=set)


def read_recording(path: str) -> Recording:
    """Read a recording, together with the other ranks' recordings if there are any.

    Raises
    ------
    InvalidArgumentError
        If there is no such file, it is incomplete or not a recording, or ranks are missing.
    """
    paths = [path] if os.path.exists(path) else _paths_of_ranks(path)
    recordings = [_read_rank(one) for one in paths]
    count = recordings[0]["ranks"]
    if count > 1 and len(recordings) == 1:
        paths = _paths_of_ranks(path)
        recordings = [_read_rank(one) for one in paths]
    ranks = sorted(one["rank"] for one in recordings)
    if ranks != list(range(count)):
        raise InvalidArgumentError(
            f"{path} has recordings of ranks {ranks} out of {count}: record all ranks, and put "
            "their files in the same folder"
        )
    number = min(len(one["runs"]) for one in recordings)
    ended = [run["ended"] for one in recordings for run in one["runs"][:number] if run["ended"]]
    return Recording(
        path,
        recordings[0]["program"],
        recordings[0]["libraries"],
        count,
        [
            _joined(
                RecordedLoader.from_json(each)
                for one in recordings
                for each in one["runs"][run]["loaders"]
            )
            for run in range(number)
        ],
        ended[0] if ended else None,
    )


def _paths_of_ranks(path: str) -> list[str]:
    """Return the files of all ranks, given the path of one of them or their common path."""
    stem = path.removesuffix(".json")
    head, dot, rank = stem.rpartition(".rank-")
    stem = head if dot and rank.isdigit() else stem
    found = sorted(glob(f"{escape(stem)}.rank-*.json"))
    if not found:
        raise InvalidArgumentError(
            f"there is no recording {path}: write one with `mdstorm compare --recorder`"
        )
    return found


def _read_rank(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
        if value["recording"] > FORMAT:
            raise InvalidArgumentError(
                f"{path} was written by a newer recorder, in format {value['recording']}: this "
                f"version of mdstorm reads format {FORMAT}. Upgrade mdstorm"
            )
        for run in value["runs"]:
            _ = [RecordedLoader.from_json(each) for each in run["loaders"]], run["ended"]
        _ = value["rank"], value["ranks"], value["program"], value["libraries"]
    except (KeyError, TypeError, ValueError, AttributeError, IsADirectoryError) as error:
        if isinstance(error, InvalidArgumentError):
            raise
        raise InvalidArgumentError(
            f"{path} is not a complete recording ({type(error).__name__}: {error}): record the "
            "program again"
        ) from error
    if not value["runs"]:
        raise InvalidArgumentError(f"{path} contains no runs: record the program again")
    found: dict[str, Any] = value
    return found


def _joined(loaders: Iterable[RecordedLoader]) -> dict[tuple[str, str, str, int], RecordedLoader]:
    """Join a loader's shares on all ranks, and of calls that differ only in ``cur_shard``.

    All shares of a loader are created by the same function. Each share joins the first loader from
    that function that does not have the share's shard yet.
    """
    sites: dict[tuple[str, str, str], list[_Shares]] = {}
    ranks: dict[tuple[str, str, str, int], int] = {}
    for loader in loaders:
        # All loaders of a rank precede the next rank's, so the number of earlier loaders with the
        # same key is the rank.
        rank = ranks[loader.key] = ranks.get(loader.key, -1) + 1
        shard = loader.arguments.get("cur_shard")
        token = (0, shard) if isinstance(shard, int) else (1 + loader.call, rank)
        at_site = sites.setdefault(loader.site, [])
        for shares in at_site:
            same_kind = isinstance(shard, int) or shares.loader.call == loader.call
            if token not in shares.taken and same_kind and _are_shares(shares.loader, loader):
                shares.loader = shares.loader.joined(loader)
                shares.taken.add(token)
                break
        else:
            at_site.append(_Shares(replace(loader, call=len(at_site)), {token}))
    return {shares.loader.key: shares.loader for each in sites.values() for shares in each}


def _are_shares(one: RecordedLoader, other: RecordedLoader) -> bool:
    count = one.arguments.get("shard_count")
    return count == other.arguments.get("shard_count") and one.is_share == other.is_share
