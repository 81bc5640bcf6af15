"""Split a conversion into tasks of consecutive row groups.

The split depends only on the data and the shard size, and a shard holds rows of one task, so the
result is the same however many tasks run at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby


@dataclass(frozen=True)
class ConversionTask:
    """Consecutive row groups that are converted together.

    Attributes
    ----------
    number : int
        Position among all tasks.
    row_groups : range
        Numbers of its row groups in the source.
    num_rows : int
        Total rows of these.
    """

    number: int
    row_groups: range
    num_rows: int


def cut_tasks(row_counts: Sequence[int], rows_per_task: float) -> list[ConversionTask]:
    """Group consecutive row groups of at most `rows_per_task` rows in total.

    A larger row group is a task by itself; its rows fill several shards.
    """
    return _tasks(row_counts, _runs(row_counts, rows_per_task))


def tasks_by_file(row_counts: Sequence[int], files: Sequence[str]) -> list[ConversionTask]:
    """Make one task of the row groups of each file, which are consecutive.

    Parameters
    ----------
    row_counts : sequence of int
        Rows of each row group.
    files : sequence of str
        File of each row group.
    """
    runs = [list(run) for _, run in groupby(range(len(files)), key=lambda i: files[i])]
    return _tasks(row_counts, (range(run[0], run[-1] + 1) for run in runs))


def tasks_by_row_group(row_counts: Sequence[int]) -> list[ConversionTask]:
    """Make a task of each row group."""
    return _tasks(row_counts, (range(i, i + 1) for i in range(len(row_counts))))


def _tasks(row_counts: Sequence[int], runs: Iterable[range]) -> list[ConversionTask]:
    return [
        ConversionTask(number, row_groups, sum(row_counts[i] for i in row_groups))
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
