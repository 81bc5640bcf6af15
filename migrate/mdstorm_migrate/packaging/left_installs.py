"""Commands that run Petastorm's programs wait for an install beside them that does not move."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import wraps

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Edit, Finding

Check = Callable[[Document], Iterator[Edit | Finding]]


def with_installs(check: Check) -> Check:
    """Have the commands that a rule finds wait while nothing installs mdstorm for them."""

    @wraps(check)
    def wrapper(document: Document) -> Iterator[Edit | Finding]:
        yield from _waiting(list(check(document)))

    return wrapper


def _waiting(found: Sequence[Edit | Finding]) -> Iterator[Edit | Finding]:
    classes = {one.cls for one in found if one.topic == "install"}
    why = "what installs Petastorm in this file is "
    why += "left to you" if "manual" in classes else "to be reviewed"
    is_waiting = "exact" not in classes and not classes.isdisjoint(("manual", "review"))
    for one in found:
        if is_waiting and isinstance(one, Edit) and one.cls == "exact" and one.topic == "run":
            one = replace(one, cls="review", message=f"{one.message}; waits, since {why}")
        yield one
