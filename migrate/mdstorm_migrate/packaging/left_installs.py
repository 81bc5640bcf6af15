"""Commands that run Petastorm's programs wait for an install beside them that is left to people."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import wraps

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Edit, Finding

Check = Callable[[Document], Iterator[Edit | Finding]]


def with_installs(check: Check) -> Check:
    """Have the commands that a rule finds wait if only people can install mdstorm for them."""

    @wraps(check)
    def wrapper(document: Document) -> Iterator[Edit | Finding]:
        yield from _waiting(list(check(document)))

    return wrapper


def _waiting(found: Sequence[Edit | Finding]) -> Iterator[Edit | Finding]:
    installs = [one for one in found if one.topic == "install"]
    is_required = any(isinstance(one, Edit) for one in installs)
    is_left = any(one.cls == "manual" for one in installs)
    for one in found:
        is_run = isinstance(one, Edit) and one.cls == "exact" and one.topic == "run"
        if is_run and is_left and not is_required:
            why = "what installs Petastorm in this file is left to you"
            one = replace(one, cls="review", message=f"{one.message}; waits, since {why}")
        yield one
