"""Comparison reports, as text lines or as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mdstorm_migrate.compare.comparison import DIFFERENT, EQUAL, NOT_COMPARABLE, Difference, Verdict
from mdstorm_migrate.compare.recordings import RecordedLoader, Recording

_PAGE = "docs/differences.md"


def counts_of(verdicts: Sequence[Verdict]) -> dict[str, int]:
    """Return the number of verdicts with each outcome."""
    outcomes = [verdict.outcome for verdict in verdicts]
    return {outcome: outcomes.count(outcome) for outcome in (EQUAL, DIFFERENT, NOT_COMPARABLE)}


def lines_of(verdicts: Sequence[Verdict], old: Recording, new: Recording) -> Iterator[str]:
    """Yield the report's lines: a heading, the result for each loader, and a count per outcome."""
    yield f"{old.library} and {new.library}, {old.program}"
    yield ""
    names = [_name(verdict.loader) for verdict in verdicts]
    width = max(map(len, names), default=0)
    for name, verdict in zip(names, verdicts, strict=True):
        first, *others = _results(verdict)
        yield f"{name:<{width}}  {verdict.outcome:<14}  {first}".rstrip()
        for text in [*others, *verdict.remarks]:
            yield f"{'':{width}}  {'':14}  {text}"
        for side, rows in verdict.examples.items():
            for row in rows:
                yield f"{'':{width}}  {'':14}  only {side}: {row}"
    yield ""
    counts = counts_of(verdicts)
    yield ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    documented = sum(verdict.is_documented for verdict in verdicts if verdict.differences)
    if documented:
        yield f"{documented} of {counts[DIFFERENT]} different only as {_PAGE} documents"


def _name(loader: RecordedLoader) -> str:
    function = "" if loader.function == "<module>" else f" {loader.function}"
    return f"{loader.file}{function} {loader.kind} #{loader.call + 1}"


def _results(verdict: Verdict) -> list[str]:
    found = [_text(difference) for difference in verdict.differences]
    if verdict.reason:
        found.append(verdict.reason)
    columns = len(verdict.loader.data.columns) if verdict.loader.data else 0
    order = "" if verdict.no_order else ", in the same order"
    return found or [f"{verdict.rows} rows, {columns} columns{order}"]


def _text(difference: Difference) -> str:
    column = f"column {difference.column}: " if difference.column else ""
    text = f"{column}{difference.kind}: {difference.detail}"
    if difference.section:
        text += f"; documented: {difference.reason} ({_PAGE}#{difference.section})"
    return text


def to_json(verdicts: Sequence[Verdict], old: Recording, new: Recording) -> dict[str, Any]:
    """Return the report as JSON values."""
    return {
        "program": old.program,
        "before": {"recording": old.path, "libraries": dict(old.libraries), "ended": old.ended},
        "after": {"recording": new.path, "libraries": dict(new.libraries), "ended": new.ended},
        "counts": counts_of(verdicts),
        "loaders": [_verdict_to_json(verdict) for verdict in verdicts],
    }


def _verdict_to_json(verdict: Verdict) -> dict[str, Any]:
    loader = verdict.loader
    return {
        "kind": loader.kind,
        "file": loader.file,
        "function": loader.function,
        "call": loader.call,
        "outcome": verdict.outcome,
        "rows": verdict.rows,
        "reason": verdict.reason,
        "remarks": verdict.remarks,
        "order": f"not compared: {verdict.no_order}" if verdict.no_order else "compared",
        "examples": verdict.examples,
        "differences": [
            {
                "kind": each.kind,
                "column": each.column,
                "detail": each.detail,
                "documented": f"{_PAGE}#{each.section}" if each.section else None,
            }
            for each in verdict.differences
        ],
    }
