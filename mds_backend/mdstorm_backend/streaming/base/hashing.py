"""Hashes of files: the mirror of ``streaming.base.hashing``."""

from __future__ import annotations

from mdstorm_backend.format.hashes import HASH_NAMES, digest

__all__ = ["get_hash", "get_hashes", "is_hash"]


def get_hashes() -> set[str]:
    """Return the names of all hashes; those that begin with xxh need the extra ``xxhash``."""
    return set(HASH_NAMES)


def is_hash(algo: str) -> bool:
    """Whether `algo` is the name of a hash."""
    return algo in HASH_NAMES


def get_hash(algo: str, data: bytes) -> str:
    """Hash `data`: lower-case hexadecimal text.

    Raises
    ------
    InvalidArgumentError
        If the name is unknown. A `ValueError`.
    MissingDependencyError
        If it is one of xxhash, which is not installed.
    """
    return digest(algo, [data])
