"""Code in comments: behind `# MAGIC` at Databricks, behind a number sign in Jupytext files."""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass
from functools import cached_property

from mdstorm_migrate.base.edits import EditError
from mdstorm_migrate.base.segments import Segment


@dataclass(frozen=True)
class Uncommented:
    """The text of a file without what some of its lines begin with.

    Attributes
    ----------
    file : str
        The text of the file, or a part of it.
    cuts : tuple of (int, int)
        Where it has what is left out, in its order: at the beginnings of lines.
    prefix : str
        What new lines among these begin with.
    offset : int
        Where the part begins in the file.
    """

    file: str
    cuts: tuple[tuple[int, int], ...]
    prefix: str
    offset: int = 0

    @cached_property
    def text(self) -> str:
        """What is left."""
        pieces, position = [], 0
        for start, stop in self.cuts:
            pieces.append(self.file[position:start])
            position = stop
        return "".join([*pieces, self.file[position:]])

    @cached_property
    def _places(self) -> list[int]:
        """Where in `text` something was left out, in its order."""
        found, gone = [], 0
        for start, stop in self.cuts:
            found.append(start - gone)
            gone += stop - start
        return found

    def span(self, start: int, stop: int) -> tuple[int, int]:
        """Return the span in the file. Whole lines are taken with what they begin with."""
        at = self._place(start, is_before=start != stop and self._is_whole(start, stop))
        return at, at if start == stop else self._place(stop, is_before=True)

    def spell(self, replacement: str, start: int, stop: int) -> str:
        """Return `replacement` with the prefix on each new line of it.

        Raises
        ------
        EditError
            If it would join a line to the next one.
        """
        if not self._is_commented(start):
            return replacement
        if start == stop:
            return replacement.replace("\n", f"\n{self.prefix}")
        if self._is_whole(start, stop):
            return re.sub(r"^(?=.)", lambda _: self.prefix, replacement, flags=re.M | re.S)
        if self.text[stop - 1] == "\n" and not replacement.endswith("\n"):
            raise EditError("lines of a comment would be joined")
        return re.sub(r"\n(?=.)", f"\n{self.prefix}", replacement, flags=re.DOTALL)

    def _place(self, offset: int, *, is_before: bool) -> int:
        """Return a character of `text` in the file; where some are left out, before or behind."""
        search = bisect.bisect_left if is_before else bisect.bisect_right
        cuts = self.cuts[: search(self._places, offset)]
        return self.offset + offset + sum(stop - start for start, stop in cuts)

    def _is_whole(self, start: int, stop: int) -> bool:
        return start in self._places and self.text[stop - 1] == "\n"

    def _is_commented(self, offset: int) -> bool:
        """Whether a character is on a line of which something was left out."""
        return self.text.rfind("\n", 0, offset) + 1 in self._places


def uncommented_lines(
    text: str, start: int, stop: int, pattern: re.Pattern[str], prefix: str
) -> Segment:
    """Return lines of a file, without what `pattern` finds at their beginnings, as a segment."""
    part = text[start:stop]
    cuts = tuple(match.span() for match in pattern.finditer(part))
    placement = Uncommented(part, cuts, prefix, start)
    return Segment(placement.text, placement)
