"""Side-by-side diffs, built from the edits themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import TypeAlias

from mdstorm_migrate.base.edits import Edit, Lines, apply_edits

#: Pieces of a line, and whether each has changed.
Pieces: TypeAlias = tuple[tuple[str, bool], ...]

#: Lines shown before and after a change.
_CONTEXT = 3

#: More pairs of lines than this are not searched for lines that stay.
_LARGEST_SEARCH = 100_000

#: Longer lines are compared from both ends only, and shown in part.
_LONG_LINE = 400

_WORD = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass(frozen=True)
class DiffLine:
    """A line of one of the two texts, from 1, without what ends it."""

    number: int
    pieces: Pieces


@dataclass(frozen=True)
class Row:
    """Two lines beside each other; a side without one is None. Equal ones have `changed` False."""

    left: DiffLine | None
    right: DiffLine | None
    changed: bool


@dataclass(frozen=True)
class Hunk:
    """Lines that change, with some around them, and the classes and codes of the edits there."""

    rows: Sequence[Row]
    tags: frozenset[tuple[str, str]]


@dataclass
class _Region:
    """Whole lines, counted from 0, the last not included, and the edits within."""

    first: int
    last: int
    edits: list[Edit] = field(default_factory=list)


def hunks(lines: Lines, edits: Sequence[Edit]) -> Iterator[Hunk]:
    """Yield what the edits change, in the order of the text.

    Parameters
    ----------
    lines : Lines
        The text as it was.
    edits : sequence of Edit
        Disjoint, in the order of the text.
    """
    regions = _regions(lines, edits)
    count = len(lines.starts) if lines.starts[-1] < len(lines.text) else len(lines.starts) - 1
    number = delta = 0
    while number < len(regions):
        last = number
        while (
            last + 1 < len(regions) and regions[last + 1].first - regions[last].last <= 2 * _CONTEXT
        ):
            last += 1
        rows: list[Row] = []
        position = max(regions[number].first - _CONTEXT, 0)
        for region in regions[number : last + 1]:
            rows += _same(lines, position, region.first, delta)
            changed = _changed(lines, region, delta)
            rows += changed
            delta += sum(row.right is not None for row in changed)
            delta -= sum(row.left is not None for row in changed)
            position = region.last
        rows += _same(lines, position, min(position + _CONTEXT, count), delta)
        tags = (
            (edit.cls, edit.rule) for region in regions[number : last + 1] for edit in region.edits
        )
        yield Hunk(rows, frozenset(tags))
        number = last + 1


def hunks_of_texts(before: str, after: str, tags: frozenset[tuple[str, str]]) -> Iterator[Hunk]:
    """Yield what differs between two texts, such as those of a cell, in their order.

    Parameters
    ----------
    before, after : str
    tags : frozenset of (str, str)
        Classes and codes of the edits.
    """
    old, new = _split(before), _split(after)
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        yield Hunk(list(_rows(old, new, group)), tags)


def _regions(lines: Lines, edits: Sequence[Edit]) -> list[_Region]:
    regions: list[_Region] = []
    for edit in edits:
        first, column = lines.place(edit.start)
        last, end_column = lines.place(edit.stop)
        # Of an edit that takes or adds whole lines, the line behind it is no part.
        is_whole = column == end_column == 1 and edit.replacement[-1:] in ("", "\n", "\r")
        last = last - 1 if is_whole else last
        if regions and first - 1 < regions[-1].last:
            regions[-1].last = max(last, regions[-1].last)
        else:
            regions.append(_Region(first - 1, last))
        regions[-1].edits.append(edit)
    return regions


def _same(lines: Lines, first: int, last: int, delta: int) -> list[Row]:
    rows = []
    for number in range(first, last):
        pieces = _clip(((_line(lines, number), False),))
        rows.append(Row(DiffLine(number + 1, pieces), DiffLine(number + 1 + delta, pieces), False))
    return rows


def _changed(lines: Lines, region: _Region, delta: int) -> list[Row]:
    """Return the rows of a region."""
    base, end = _start(lines, region.first), _start(lines, region.last)
    edits = [replace(one, start=one.start - base, stop=one.stop - base) for one in region.edits]
    before = _split(lines.text[base:end])
    after = _split(apply_edits(lines.text[base:end], edits))
    return list(_rows(before, after, _opcodes(before, after), region.first, delta))


def _rows(
    before: list[str],
    after: list[str],
    opcodes: Iterable[tuple[str, int, int, int, int]],
    first: int = 0,
    delta: int = 0,
) -> Iterator[Row]:
    """Yield the lines of both beside each other, counted from `first`, more on the right."""
    for tag, i, j, k, n in opcodes:
        for left, right in zip_longest(range(i, j), range(k, n)):
            yield _row(
                None if left is None else (first + left + 1, before[left]),
                None if right is None else (first + delta + right + 1, after[right]),
                tag != "equal",
            )


def _opcodes(before: list[str], after: list[str]) -> Sequence[tuple[str, int, int, int, int]]:
    if len(before) * len(after) > _LARGEST_SEARCH:
        return [("replace", 0, len(before), 0, len(after))]
    return SequenceMatcher(None, before, after, autojunk=False).get_opcodes()


def _row(left: tuple[int, str] | None, right: tuple[int, str] | None, changed: bool) -> Row:
    old, new = left[1] if left else "", right[1] if right else ""
    if changed and left and right:
        old_pieces, new_pieces = _compare(old, new)
    else:
        old_pieces, new_pieces = ((old, False),), ((new, False),)
    return Row(
        DiffLine(left[0], _clip(old_pieces)) if left else None,
        DiffLine(right[0], _clip(new_pieces)) if right else None,
        changed,
    )


def _compare(old: str, new: str) -> tuple[Pieces, Pieces]:
    """Mark the words that differ; none if hardly any is the same."""
    if max(len(old), len(new)) > _LONG_LINE:
        return _compare_ends(old, new)
    words, new_words = _WORD.findall(old), _WORD.findall(new)
    matcher = SequenceMatcher(None, words, new_words, autojunk=False)
    if matcher.ratio() < 0.4:
        return ((old, False),), ((new, False),)
    left, right = [], []
    for tag, i, j, k, n in matcher.get_opcodes():
        left.append(("".join(words[i:j]), tag != "equal"))
        right.append(("".join(new_words[k:n]), tag != "equal"))
    return _without_empty(left), _without_empty(right)


def _compare_ends(old: str, new: str) -> tuple[Pieces, Pieces]:
    """Mark what is left between a common beginning and a common end."""
    shorter = min(len(old), len(new))
    first = next((n for n in range(shorter) if old[n] != new[n]), shorter)
    last = next((n for n in range(shorter - first) if old[-1 - n] != new[-1 - n]), shorter - first)
    return _middle(old, first, len(old) - last), _middle(new, first, len(new) - last)


def _middle(text: str, first: int, last: int) -> Pieces:
    return _without_empty([(text[:first], False), (text[first:last], True), (text[last:], False)])


def _without_empty(pieces: list[tuple[str, bool]]) -> Pieces:
    return tuple(piece for piece in pieces if piece[0])


def _clip(pieces: Pieces) -> Pieces:
    """Leave out the middle of long pieces of a long line, such as of a notebook in one line."""
    if sum(len(text) for text, _ in pieces) <= _LONG_LINE:
        return pieces
    half = _LONG_LINE // 4
    return tuple(
        (text if len(text) <= 2 * half else f"{text[:half]} … {text[-half:]}", marked)
        for text, marked in pieces
    )


def _start(lines: Lines, number: int) -> int:
    return lines.starts[number] if number < len(lines.starts) else len(lines.text)


def _line(lines: Lines, number: int) -> str:
    return lines.text[_start(lines, number) : _start(lines, number + 1)].rstrip("\r\n")


def _split(text: str) -> list[str]:
    """Return the lines of a text, without what ends them."""
    lines = Lines(text)
    count = len(lines.starts) - (lines.starts[-1] == len(text))
    return [_line(lines, number) for number in range(count)]
