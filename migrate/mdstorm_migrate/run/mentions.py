"""Which mentions of Petastorm nothing else is said of."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Edit, Finding
from mdstorm_migrate.petastorm.names import NEW_ROOT
from mdstorm_migrate.rules.pm001_mentions import CODE


def without_told(
    document: Document, findings: Sequence[Finding], edits: Sequence[Edit]
) -> list[Finding]:
    """Return the findings without mentions on lines that name mdstorm, or of which more is said."""
    mentions = [one for one in findings if one.rule == CODE and not one.is_open_todo]
    if not mentions:
        return list(findings)
    others = [one for one in findings if one.rule != CODE]
    if any(one.is_all for one in others):
        return others

    def line(offset: int) -> int:
        return document.lines.place(offset)[0]

    spans = [(one.start, one.stop) for one in others] + [(one.start, one.stop) for one in edits]
    told = {
        number
        for start, stop in spans
        for number in range(line(start), line(max(start, stop - 1)) + 1)
    }
    told |= {line(found.start()) for found in re.finditer(NEW_ROOT, document.text)}
    left = {line(one.start): one for one in mentions if line(one.start) not in told}
    return [*others, *left.values()]
