"""Commands that run Petastorm's programs wait for an install beside them that is left to people."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import wraps

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Edit, Finding
from mdstorm_migrate.packaging.runs import RUN

#: How the messages of edits begin that require mdstorm, and what findings say to do instead.
_REQUIRES = "require mdstorm"
_IS_LEFT = re.compile(
    r"\b(?:require|install|add) mdstorm\b|\bpip install mdstorm\b|take petastorm out"
)


Check = Callable[[Document], Iterator[Edit | Finding]]


def with_installs(check: Check) -> Check:
    """Have the commands that a rule finds wait if only people can install mdstorm for them."""

    @wraps(check)
    def wrapper(document: Document) -> Iterator[Edit | Finding]:
        yield from _waiting(list(check(document)))

    return wrapper


def _waiting(found: Sequence[Edit | Finding]) -> Iterator[Edit | Finding]:
    is_required = any(isinstance(one, Edit) and one.message.startswith(_REQUIRES) for one in found)
    is_left = any(
        isinstance(one, Finding) and one.cls == "manual" and _IS_LEFT.search(one.text)
        for one in found
    )
    for one in found:
        is_run = isinstance(one, Edit) and one.cls == "exact" and one.message.startswith(RUN)
        if is_run and is_left and not is_required:
            why = "what installs Petastorm in this file is left to you"
            one = replace(one, cls="review", message=f"{one.message}; waits, since {why}")
        yield one
