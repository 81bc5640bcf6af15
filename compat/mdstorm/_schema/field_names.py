"""Warn of regular expressions that match only the beginning of a field's name."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from mdstorm_backend.base import warn_user


def warn_of_prefixes(
    names: Collection[str], left_out: Iterable[str], expressions: Iterable[str]
) -> None:
    """Say which names expressions match the beginning of that match no name as a whole.

    Parameters
    ----------
    names : collection of str
        All names.
    left_out : iterable of str
        Those that no expression matches.
    expressions : iterable of str
        Regular expressions.
    """
    void = [e for e in expressions if not any(re.fullmatch(e, name) for name in names)]
    affected = [name for name in sorted(left_out) if any(re.match(e, name) for e in void)]
    if affected:
        warn_user(
            "schema_fields behavior has changed. A regular expression has to match the whole name "
            f"of a field, and {', '.join(map(repr, void))} match none: end them in .* to get "
            f"{', '.join(affected)}"
        )
