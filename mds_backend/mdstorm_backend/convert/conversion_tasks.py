"""The pieces of a conversion: neighbouring row groups that become shards together.

The cut depends on the data and the size of a shard alone, and a shard holds rows of one piece, so
that the result is the same however many pieces are converted at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

__all__ = ["Piece", "cut_pieces", "file_pieces"]


@dataclass(frozen=True)
class Piece:
    """Neighbouring row groups.

    Attributes
    ----------
    number : int
        Place of the piece among all.
    row_groups : range
        Numbers of its row groups in the source.
    num_rows : int
        Rows of these together.
    """

    number: int
    row_groups: range
    num_rows: int


def cut_pieces(row_counts: Sequence[int], rows_per_piece: float) -> list[Piece]:
    """Join neighbouring row groups while they have no more than `rows_per_piece` rows together.

    A larger row group is a piece by itself; its rows fill several shards.
    """
    return _pieces(row_counts, _runs(row_counts, rows_per_piece))


def file_pieces(row_counts: Sequence[int], files: Sequence[str]) -> list[Piece]:
    """Make one piece of the row groups of each file, which are neighbours.

    Parameters
    ----------
    row_counts : sequence of int
        Rows of each row group.
    files : sequence of str
        File of each row group.
    """
    runs = [list(run) for _, run in groupby(range(len(files)), key=lambda i: files[i])]
    return _pieces(row_counts, (range(run[0], run[-1] + 1) for run in runs))


def _pieces(row_counts: Sequence[int], runs: Iterable[range]) -> list[Piece]:
    return [
        Piece(number, row_groups, sum(row_counts[i] for i in row_groups))
        for number, row_groups in enumerate(runs)
    ]


def _runs(row_counts: Sequence[int], limit: float) -> Iterator[range]:
    start = rows = 0
    for i, count in enumerate(row_counts):
        if rows and rows + count > limit:
            yield range(start, i)
            start, rows = i, 0
        rows += count
    if start < len(row_counts):
        yield range(start, len(row_counts))
