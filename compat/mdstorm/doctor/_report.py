"""What a check-up is told, and what it says: one finding for each thing that was looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from mdstorm._petastorm_names import public

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mdstorm_backend.order import World


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
    status: Literal["ok", "note", "warning", "problem"]
    found: str
    remedy: str = ""


#: Findings of a check, called with what was found and what to do; its name is added later.
ok = partial(Finding, "", "ok")
note = partial(Finding, "", "note")
warning = partial(Finding, "", "warning")
problem = partial(Finding, "", "problem")


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


@dataclass(frozen=True)
class Setup:
    """What all checks are told: `world` is that of a job of several ranks, otherwise None."""

    url: str
    session: SparkSession | None
    world: World | None


Check = Callable[[Setup], Finding | Iterable[Finding] | None]


def of_error(error: BaseException) -> Finding:
    """Return what an error says: our messages end with what to do."""
    text = " ".join(str(error).split())
    found, _, remedy = text.partition(". ")
    if not remedy and ": " in text:
        found, _, remedy = text.rpartition(": ")
    return problem(found or type(error).__name__, remedy)
