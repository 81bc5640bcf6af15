"""The windows of some epochs of one rank, their shards opened ahead of use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate, count
from typing import TYPE_CHECKING

from mdstorm_backend.order import ExactOrder, Piece
from mdstorm_backend.read.prefetch import Prefetcher
from mdstorm_backend.read.row_stream import Position
from mdstorm_backend.read.window import Source, Window
from mdstorm_backend.user_warnings import warn_user

if TYPE_CHECKING:
    from mdstorm_backend.read.source import SampleSource

__all__ = ["WindowStream", "warn_no_data"]

#: Shards that are opened ahead of use: downloaded, decompressed, their pages asked for.
_SHARDS_AHEAD = 2


class WindowStream:
    """Puts the windows of an order together.

    Parameters
    ----------
    dataset : SampleSource
        Where the rows are.
    order : ExactOrder
        In which order they come; its seed is fixed.
    transformed : callable, optional
        Called with the source of each shard's share; returns the source to read instead.
    """

    def __init__(
        self,
        dataset: SampleSource,
        order: ExactOrder,
        transformed: Callable[[Source], Source] | None = None,
    ) -> None:
        self._dataset = dataset
        self._order = order
        self._transformed = transformed
        self._first = [0, *accumulate(dataset.shard_sizes)]

    def windows(
        self, start: Position, stop_epoch: int | None, prefetcher: Prefetcher
    ) -> Iterator[tuple[int, int, Window]]:
        """Yield windows from `start` on.

        Parameters
        ----------
        start : Position
            So many rows of the first epoch are left out; windows of nothing else are not opened.
        stop_epoch : int or None
            The first epoch that is not read; None for no end.
        prefetcher : Prefetcher
            Opens and transforms ahead of use.

        Yields
        ------
        epoch : int
            The epoch that the window belongs to.
        first_row : int
            The first row of the window to use.
        window : Window
            The rows.
        """
        skip = start.row
        for epoch in count(start.epoch) if stop_epoch is None else range(start.epoch, stop_epoch):
            rows = 0
            for number, sources in enumerate(self._groups(self._sources(epoch, prefetcher))):
                size = sum(source.stop - source.start for source in sources)
                rows += size
                if size <= skip:
                    skip -= size
                    continue
                yield epoch, skip, Window(sources, self._order.permutation(size, epoch, number))
                skip = 0
            if rows == 0:
                warn_no_data(self._dataset.url, transformed=self._transformed is not None)
                return

    def _sources(self, epoch: int, prefetcher: Prefetcher) -> Iterator[Source]:
        pieces = self._order.pieces(self._dataset.shard_sizes, epoch)
        if self._transformed is None:
            return prefetcher.map(self._open, pieces, depth=_SHARDS_AHEAD)
        return prefetcher.map(self._open_and_transform, pieces)

    def _open(self, piece: Piece) -> Source:
        shard = self._dataset.shard(piece.shard)
        if self._order.window == 0:
            shard.will_need()
        return Source(shard, piece.start, piece.stop, self._first[piece.shard] + piece.start)

    def _open_and_transform(self, piece: Piece) -> Source:
        assert self._transformed is not None
        return self._transformed(self._open(piece))

    def _groups(self, sources: Iterator[Source]) -> Iterator[list[Source]]:
        """Join sources to windows of at least as many rows as the order asks for."""
        group: list[Source] = []
        rows = 0
        for source in sources:
            if source.stop == source.start:
                continue
            group.append(source)
            rows += source.stop - source.start
            if rows >= self._order.window:
                yield group
                group, rows = [], 0
        if group:
            yield group


def warn_no_data(url: str, *, transformed: bool = False) -> None:
    """Warn that there is nothing to read, as Petastorm does."""
    reason = (
        "the transform returned no rows for a whole epoch"
        if transformed
        else "the dataset, or this rank's share of it, has no rows"
    )
    warn_user(f"No matching data is available for loading in {url}: {reason}")
