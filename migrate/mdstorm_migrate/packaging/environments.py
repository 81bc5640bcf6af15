"""The environments of tox, whose names say which Python each runs on."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

from mdstorm_migrate.packaging.bounds import PYTHON, release

_FACTOR = re.compile(r"(?:(?:py|pypy)(\d)(\d+)|(?:py)?(\d)\.(\d+))")
_NEWEST = f"py{PYTHON.replace('.', '')}"
#: A factor of Pythons, as it stands before braces are expanded.
_PYTHONS = re.compile(r"py\d*\{[\d,\s]*\}\d*|\{(?:\s*py\d+\s*,?)+\}|py\d\d+")


def without_old(environments: str) -> str | None:
    """Return a list of environments without those of Pythons that are too old.

    Where no other has its further factors, or where none is left, one gets a Python that mdstorm
    runs on. Lines stay lines.

    Returns
    -------
    str or None
        None if none is too old; empty if that cannot be told from braces.

    Examples
    --------
    >>> without_old("py{38,39,311}-{a,b}, lint")
    'py311-{a,b}, lint'
    >>> without_old("py38, py39-spark, lint")
    'py310-spark, lint'
    """
    entries = [one for one in _entries(environments) if one.strip()]
    if not any(_is_old(name) for one in entries for name in _expanded(one)):
        return None
    left = list(map(_left, entries))
    known = {"", *(_rest(name) for one in left for name in _expanded(one))}
    kept: list[str] = []
    for entry, new in zip(entries, left, strict=True):
        rests = set(map(_rest, _expanded(entry)))
        kept += [new] if new else [] if rests <= known else [_raised(entry)]
        known |= rests
    if not any(re.search(r"\bpy", one) for one in kept):
        kept = [_raised(entries[0]), *kept]
    if any(_is_old(name) for one in kept for name in _expanded(one)):
        return ""
    indent = re.search(r"\n[ \t]+", environments)
    if environments.lstrip(" \t").startswith(("\n", "\r")):
        gap = indent[0] if indent else "\n    "
        return gap + gap.join(kept)
    return ", ".join(kept)


def are_old(environments: str) -> bool:
    """Whether all environments of a list that name a Python name one that is too old."""
    names = [name for one in _entries(environments) if one.strip() for name in _expanded(one)]
    told = [name for name in names if any(map(_FACTOR.fullmatch, name.split("-")))]
    return bool(told) and all(map(_is_old, told))


def _left(entry: str) -> str:
    """Return what is left of an entry without the choices that are all too old."""
    parts = re.split(r"(\{[^}]*\})", entry.strip())
    names = list(_expanded(entry))
    if all(map(_is_old, names)):
        return ""
    for at in range(1, len(parts), 2):
        choices = [one.strip() for one in parts[at][1:-1].split(",")]
        kept = [
            one
            for one in choices
            if not all(map(_is_old, _expanded("".join([*parts[:at], one, *parts[at + 1 :]]))))
        ]
        if len(kept) < len(choices):
            parts[at] = kept[0] if len(kept) == 1 else f"{{{','.join(kept)}}}"
    return "".join(parts)


def _raised(entry: str) -> str:
    return _PYTHONS.sub(_NEWEST, entry.strip(), count=1)


def _rest(name: str) -> str:
    """Return the factors of an environment but that of a Python."""
    return "-".join(one for one in name.split("-") if not _FACTOR.fullmatch(one))


def _entries(text: str) -> list[str]:
    """Return the entries of a list: commas and new lines outside of braces part them."""
    plain = re.sub(r"(?m)(^|\s)#[^\n]*", "", text)
    return re.split(r"(?:,|\n)(?![^{}]*\})", plain)


def _expanded(entry: str) -> Iterable[str]:
    """Return the names that braces stand for."""
    parts = re.split(r"\{([^}]*)\}", entry.strip())
    choices = [
        [one.strip() for one in part.split(",")] if at % 2 else [part]
        for at, part in enumerate(parts)
    ]
    return ("".join(found) for found in itertools.product(*choices))


def _is_old(name: str) -> bool:
    for factor in name.split("-"):
        found = _FACTOR.fullmatch(factor)
        if found is not None:
            major, minor = found.group(1, 2) if found[1] else found.group(3, 4)
            return (int(major), int(minor)) < release(PYTHON)
    return False
