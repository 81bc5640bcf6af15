"""The windows of a rank's epochs, with shards opened ahead of use."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, count, islice
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from mdstorm_backend.base.cached_property import cached_property
from mdstorm_backend.base.prefetch import Prefetcher
from mdstorm_backend.base.user_warnings import warn_user
from mdstorm_backend.order.exact import ExactOrder, Piece
from mdstorm_backend.read.row_stream import Position
from mdstorm_backend.read.shard import Shard
from mdstorm_backend.read.window import Source, Window

if TYPE_CHECKING:
    from mdstorm_backend.read.source import SampleSource

_Part = TypeVar("_Part", Piece, Source)
_Find: TypeAlias = Callable[[list[Piece]], Iterator[Source]]

#: Shards at least that are opened ahead of use: downloaded, decompressed, their pages asked for.
_SHARDS_AHEAD = 2


@dataclass(eq=False)
class WindowStream:
    """Puts the windows of an order together.

    Parameters
    ----------
    dataset : SampleSource
        Where the rows are.
    order : ExactOrder
        In which order they come; its seed is fixed.
    transformed : callable, optional
        Called for each shard's share with the number of its first sample, its rows, and a function
        that opens it; returns the source to read instead.
    make_ready : callable, optional
        Called with each shard ahead of use.
    slice_rows : int, optional
        Call `transformed` for so many rows of a shard at a time, not for its whole share.
    """

    dataset: SampleSource
    order: ExactOrder
    transformed: Callable[[int, int, Callable[[], Source]], Source] | None = None
    make_ready: Callable[[Shard], None] | None = None
    slice_rows: int | None = None

    def __post_init__(self) -> None:
        dataset = self.dataset
        #: What opens a shard. Windows that nobody permutes wait for the rows that are read.
        self.open_shard = dataset.shard if self.order.shuffles else dataset.begin_shard
        self._first = [0, *accumulate(dataset.shard_sizes)]

    @cached_property
    def _shards_ahead(self) -> int:
        dataset = self.dataset
        shards = dataset.bytes_ahead * len(dataset.shard_sizes) // max(dataset.nbytes, 1)
        return max(_SHARDS_AHEAD, shards)

    def windows(
        self,
        start: Position,
        stop_epoch: int | None,
        prefetcher: Prefetcher,
        opener: Prefetcher | None = None,
    ) -> Iterator[tuple[int, int, int, Window]]:
        """Yield windows from `start` on.

        Parameters
        ----------
        start : Position
            So many rows of the first epoch are left out; windows of nothing else are not opened,
            unless a transform has to tell how many rows they have.
        stop_epoch : int or None
            The first epoch that is not read; None for no end.
        prefetcher : Prefetcher
            Opens and transforms ahead of use.
        opener : Prefetcher, optional
            Opens in its place.

        Yields
        ------
        epoch : int
            The epoch that the window belongs to.
        first_row, stop_row : int
            Which rows of the window to use.
        window : Window
            The rows.
        """
        find = partial(self._sources, prefetcher=prefetcher, opener=opener)
        skip = start.row
        for epoch in count(start.epoch) if stop_epoch is None else range(start.epoch, stop_epoch):
            if self.transformed is None:
                yield from self._stored(epoch, skip, find)
            elif not (yield from self._of_transform(epoch, skip, find)):
                warn_no_data(self.dataset.url, transformed=True)
                return
            skip = 0

    def _stored(self, epoch: int, skip: int, find: _Find) -> Iterator[tuple[int, int, int, Window]]:
        """Yield the windows of an epoch, without its first `skip` rows."""
        num_rows = len(self.dataset)
        if skip and skip == self.order.rows_in(num_rows, epoch):
            return
        for order, rows in self.order.parts(num_rows, epoch):
            chosen = rows[skip:]
            skip -= len(rows) - len(chosen)
            pieces = order.pieces(self.dataset.shard_sizes, epoch)
            shares = ([piece] for piece in pieces)
            groups = list(_within(_groups(shares, order.window), chosen))
            used = [piece for _, group, _ in groups for piece in group]
            sources = find(used)
            for number, group, use in groups:
                permutation = order.permutation(_num_rows(group), epoch, number)
                window = Window(list(islice(sources, len(group))), permutation)
                yield epoch, use.start, use.stop, window

    def _of_transform(
        self, epoch: int, skip: int, find: _Find
    ) -> Generator[tuple[int, int, int, Window], None, int]:
        """Yield the windows of an epoch, and return how many rows a transform makes of it."""
        pieces = self.order.pieces(self.dataset.shard_sizes, epoch)
        sources, rows = find(pieces), 0
        shares = (
            (list(islice(sources, len(self._slices(piece)))) for piece in pieces)
            if self.order.shuffles
            else ([source] for source in sources)  # nothing waits for the rest of a shard
        )
        for number, group in enumerate(_groups(shares, self.order.window)):
            size = _num_rows(group)
            rows += size
            if size > skip:
                permutation = self.order.permutation(size, epoch, number)
                yield epoch, skip, size, Window(group, permutation)
            skip = max(skip - size, 0)
        return rows

    def _sources(
        self, pieces: list[Piece], prefetcher: Prefetcher, opener: Prefetcher | None
    ) -> Iterator[Source]:
        if self.transformed is None:
            return (opener or prefetcher).map(self._open, pieces, depth=self._shards_ahead)
        opened: Iterator[Callable[[], Source]] = (partial(self._open, piece) for piece in pieces)
        if opener is not None:
            opened = opener.begun(self._open, pieces, self._shards_ahead)
        slices = (
            (cut, source)
            for piece, source in zip(pieces, opened, strict=True)
            for cut in self._slices(piece)
        )
        return prefetcher.map(self._transform, slices)

    def _open(self, piece: Piece) -> Source:
        shard = self.open_shard(piece.shard)
        if self.order.window == 0:
            shard.will_need()
        if self.make_ready is not None:
            self.make_ready(shard)
        return Source(shard, piece.start, piece.stop, self._first[piece.shard] + piece.start)

    def _slices(self, piece: Piece) -> list[Piece]:
        """Cut a piece of a shard into what the transform is called with."""
        if self.slice_rows is None:
            return [piece]
        starts = range(piece.start, piece.stop, self.slice_rows)
        stops = (min(start + self.slice_rows, piece.stop) for start in starts)
        return [Piece(piece.shard, *bounds) for bounds in zip(starts, stops, strict=True)]

    def _transform(self, opened: tuple[Piece, Callable[[], Source]]) -> Source:
        assert self.transformed is not None
        piece, source = opened
        first = self._first[piece.shard] + piece.start

        def open_source() -> Source:
            return replace(source(), start=piece.start, stop=piece.stop, number=first)

        return self.transformed(first, piece.stop - piece.start, open_source)


def _groups(shares: Iterable[Sequence[_Part]], window: int) -> Iterator[list[_Part]]:
    """Join shares of shards, or what became of them, to windows of at least `window` rows."""
    group: list[_Part] = []
    for share in shares:
        group += (part for part in share if part.stop > part.start)
        if group and _num_rows(group) >= window:
            yield group
            group = []
    if group:
        yield group


def _within(groups: Iterable[list[Piece]], rows: range) -> Iterator[tuple[int, list[Piece], range]]:
    """Choose the windows that have any of `rows`: their number, what is in them, their rows."""
    first = 0
    for number, group in enumerate(groups):
        size = _num_rows(group)
        start, stop = max(rows.start - first, 0), min(rows.stop - first, size)
        if start < stop:
            yield number, group, range(start, stop)
        first += size


def _num_rows(parts: Sequence[Piece | Source]) -> int:
    return sum(part.stop - part.start for part in parts)


def warn_no_data(url: str, *, transformed: bool = False) -> None:
    """Warn that there is nothing to read, as Petastorm does."""
    reason = (
        "the predicate or the transform left no rows in a whole epoch"
        if transformed
        else "the dataset has no rows"
    )
    warn_user(f"No matching data is available for loading in {url}: {reason}")
