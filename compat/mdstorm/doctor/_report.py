"""What the checks find: `Finding` and `Report`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from mdstorm._petastorm_names import public


@public("mdstorm.doctor")
@dataclass(frozen=True)
class Finding:
    """A single result of a check.

    Attributes
    ----------
    check : str
        Name of the check, such as ``java``.
    status : {"ok", "note", "problem"}
        A problem breaks programs that use what was checked. A note reports something missing that
        not every program needs, or a library that is newer than mdstorm supports.
    found : str
        What was found, and where.
    remedy : str
        What to do, or an empty string if nothing needs to be done.
    """

    check: str
    status: Literal["ok", "note", "problem"]
    found: str
    remedy: str = ""


@public("mdstorm.doctor")
@dataclass(frozen=True)
class Report:
    """The findings of all checks, in the order in which the checks ran.

    Attributes
    ----------
    findings : tuple of Finding
        The findings. A check can yield none or several.
    """

    findings: tuple[Finding, ...]

    @property
    def problems(self) -> tuple[Finding, ...]:
        """The findings whose status is ``problem``."""
        return tuple(one for one in self.findings if one.status == "problem")

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON-serializable values."""
        found = [asdict(one) for one in self.findings]
        return {"problems": len(self.problems), "findings": found}

    def __str__(self) -> str:
        width = max((len(one.check) for one in self.findings), default=0)
        lines = []
        for one in self.findings:
            lines.append(f"{one.status:8} {one.check:{width}}  {one.found}")
            if one.remedy:
                lines.append(f"{'':8} {'':{width}}  → {one.remedy}")
        return "\n".join(lines)

    __repr__ = __str__


def of_error(check: str, error: BaseException) -> Finding:
    """Convert an error to a problem, with the end of its message as the remedy."""
    text = " ".join(str(error).split())
    found, _, remedy = text.partition(". ")
    if not remedy and ": " in text:
        found, _, remedy = text.rpartition(": ")
    return Finding(check, "problem", found or type(error).__name__, remedy)
