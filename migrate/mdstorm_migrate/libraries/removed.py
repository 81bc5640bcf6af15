"""What one entry of the tables says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Removed(NamedTuple):
    """Something that a library no longer has.

    Attributes
    ----------
    release : str
        The library and a release from which on it is gone: ``"NumPy 1.24"``.
    instead : str
        What to do, as an imperative: ``"write `float`"``. Names that share release and advice are
        reported together.
    exact : str
        What is the same thing in old and in new releases, if anything: a dotted path of the
        library, a builtin, or a number.
    ruff : str
        The rule of ruff that finds it, if there is one.
    """

    release: str
    instead: str
    exact: str = ""
    ruff: str = ""

    def sentence(self, subject: str, ruff: str = "") -> str:
        """Return what to do, in one line; `subject` is such as "`np.float` is gone"."""
        by_ruff = f" (ruff: {ruff})" if ruff else ""
        return f"{subject} from {self.release} on: {self.instead}{by_ruff}"


class Member(NamedTuple):
    """A method or an attribute of objects that is gone.

    Attributes
    ----------
    owners : tuple of str
        The classes that had it, as dotted paths.
    removed : Removed
    is_telling : bool
        Whether nothing else has a member of that name, in files that import the library.
    """

    owners: tuple[str, ...]
    removed: Removed
    is_telling: bool = False


def all_of(prefix: str, names: str, removed: Removed) -> dict[str, Removed]:
    """Return a table in which the names below `prefix` share an entry."""
    return {f"{prefix}.{name}": removed for name in names.split()}


def words(text: str, prefix: str = "") -> frozenset[str]:
    """Return the words of a text, each behind `prefix`."""
    return frozenset(f"{prefix}{word}" for word in text.split())


def joined(*tables: dict[str, Removed]) -> dict[str, Removed]:
    """Return tables as one.

    Raises
    ------
    ValueError
        If a name is in two of them.
    """
    found: dict[str, Removed] = {}
    for name, removed in _items(tables):
        if name in found:
            raise ValueError(f"{name} is in two tables")
        found[name] = removed
    return found


def _items(tables: Iterable[dict[str, Removed]]) -> Iterable[tuple[str, Removed]]:
    return (item for table in tables for item in table.items())
