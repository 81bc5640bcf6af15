"""Hashes of whole files, by the names that the MDS format uses.

They are the algorithms of ``hashlib`` that every Python has, except the two whose length is free
(``shake_*``), and those of the library ``xxhash``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from mdstorm_backend.base.optional import require
from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError
from mdstorm_backend.storage import Buffer

_XXHASH = ("xxh128", "xxh32", "xxh3_128", "xxh3_64", "xxh64")
_HASHLIB = {name for name in hashlib.algorithms_guaranteed if not name.startswith("shake_")}

#: Every name that can be computed here; those of xxhash need the extra of that name.
HASH_NAMES = frozenset({*_HASHLIB, *_XXHASH})


def check_hashes(names: Iterable[str] | None) -> tuple[str, ...]:
    """Return the names of hashes as a tuple; None stands for none.

    Raises
    ------
    InvalidArgumentError
        If a name is unknown, or the names are not unique and sorted: other readers refuse that.
    MissingDependencyError
        If one is of xxhash, which is not installed.
    """
    if isinstance(names, str):
        raise ArgumentTypeError(f"hashes must be a list, found {names!r}: write [{names!r}]")
    found = tuple(names or ())
    if list(found) != sorted(set(found)):
        raise InvalidArgumentError(
            f"hashes must be unique and in sorted order, found {list(found)}: write "
            f"{sorted(set(found))}"
        )
    for name in found:
        _new(name)
    return found


def digest(name: str, buffers: Iterable[Buffer]) -> str:
    """Hash the concatenation of `buffers`: lower-case hexadecimal text.

    Raises
    ------
    InvalidArgumentError
        If the name is unknown.
    MissingDependencyError
        If it is one of xxhash, which is not installed.
    """
    return digests([name], buffers)[name]


def digests(names: Iterable[str], buffers: Iterable[Buffer]) -> dict[str, str]:
    """Hash the concatenation of `buffers` by each of `names`, in one pass over them."""
    states = {name: _new(name) for name in names}
    if states:
        for buffer in buffers:
            for state in states.values():
                state.update(buffer)
    return {name: str(state.hexdigest()) for name, state in states.items()}


def _new(name: str) -> Any:
    if name in _XXHASH:
        return getattr(require("xxhash"), name)()
    if name in _HASHLIB:
        # Against damage, not against an adversary: so MD5 works where policy forbids it otherwise.
        return hashlib.new(name, usedforsecurity=False)
    raise InvalidArgumentError(
        f"hash {name!r} is unknown: use one of {', '.join(sorted(HASH_NAMES))}"
    )
