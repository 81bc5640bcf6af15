"""What a check-up says: one finding for each thing that was looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

from mdstorm._petastorm_names import public

Status = Literal["ok", "note", "warning", "problem"]


@public("mdstorm.doctor")
@dataclass(frozen=True)
class Finding:
    """What was found in one place.

    Attributes
    ----------
    check : str
        What was looked at, such as ``java``.
    status : {"ok", "note", "warning", "problem"}
        A problem stops programs that use what was looked at. A warning costs speed, or stops some
        of them. A note says that something is not there, which not every program needs.
    found : str
        What was found, and where.
    remedy : str
        What to do; empty if nothing has to be done.
    """

    check: str
    status: Status
    found: str
    remedy: str = ""


@public("mdstorm.doctor")
@dataclass(frozen=True)
class Report:
    """What a check-up found, in the order in which it looked.

    Attributes
    ----------
    findings : tuple of Finding
        At least one for each check.
    """

    findings: tuple[Finding, ...]

    @property
    def problems(self) -> tuple[Finding, ...]:
        """The findings that stop programs."""
        return tuple(one for one in self.findings if one.status == "problem")

    def to_json(self) -> dict[str, Any]:
        """Return the report as values that JSON has."""
        return {
            "problems": len(self.problems),
            "findings": [asdict(one) for one in self.findings],
        }

    def __str__(self) -> str:
        width = max((len(one.check) for one in self.findings), default=0)
        lines = []
        for one in self.findings:
            lines.append(f"{one.status:8} {one.check:{width}}  {one.found}")
            if one.remedy:
                lines.append(f"{'':8} {'':{width}}  → {one.remedy}")
        return "\n".join(lines)

    __repr__ = __str__


def of_error(check: str, error: BaseException, status: Status = "problem") -> Finding:
    """Return what an error says: our messages end with what to do."""
    text = " ".join(str(error).split())
    found, _, remedy = text.partition(". ")
    if not remedy and ": " in text:
        found, _, remedy = text.rpartition(": ")
    return Finding(check, status, found or type(error).__name__, remedy)


def examined(check: str, look: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """Yield what a check finds; that it failed itself is a finding, too."""
    try:
        yield from look()
    except Exception as error:  # whatever is broken here, the other checks still run
        yield Finding(
            check,
            "problem",
            f"this could not be checked: {type(error).__name__}: {' '.join(str(error).split())}",
            "install mdstorm and its libraries anew in a fresh environment",
        )
