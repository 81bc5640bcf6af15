"""`Kind`, the base class of the kinds of data that can be opened, and their registry."""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from typing import ClassVar, Literal, TypeAlias

from mdstorm_backend.datasets import SampleDataset
from mdstorm_backend.kinds.place import Place
from mdstorm_backend.parquet import ParquetDataset

_Turn: TypeAlias = Literal["first", "then", "last", "never"]

#: The kinds by name. Each kind registers itself.
KINDS: dict[str, Kind] = {}


class Kind(ABC):
    """A kind of data, which knows its own and opens them.

    Each kind is a subclass, in a module of this folder or elsewhere. It registers itself by setting
    `name`. What it opens is then opened by `open_dataset`, readers, converters and commands.
    `convert` takes it if it opens a `ParquetDataset`: then it is a `ParquetKind`.

    Attributes
    ----------
    name : str
        What it is in messages, such as "a Delta table".
    reader : str
        What reads it in place, for messages.
    format : str
        The format that catalogs have for its tables; empty if they have none.
    asked : {"first", "then", "last", "never"}
        When the kind is asked whether data are its own, which takes requests in a store: most data
        are of the first one, which has no versions, and the last one opens what is of no other
        kind. One that is never asked is not opened, but explains what is there.
    """

    name: ClassVar[str]
    reader: ClassVar[str] = "mdstorm.make_batch_reader"
    format: ClassVar[str] = ""
    asked: ClassVar[_Turn] = "then"

    def __init_subclass__(cls) -> None:
        if "name" in vars(cls):
            KINDS[cls.name] = cls()

    def is_named(self, place: Place) -> bool:
        """Whether the URL shows by itself that the data are of this kind, as a file's ending."""
        return False

    @abstractmethod
    def is_at(self, place: Place) -> bool:
        """Whether the data at a place are of this kind, as far as is known without opening them."""

    @abstractmethod
    def open(self, place: Place) -> SampleDataset:
        """Open the data at a place, which are of this kind.

        Raises
        ------
        MDStormError
            If they cannot be opened.
        """

    def find(self, place: Place) -> SampleDataset | None:
        """Open the data at a place; return None if they are of another kind."""
        return self.open(place) if self.is_at(place) else None

    def described(self, place: Place) -> tuple[str, str]:
        """Return what is at a place, and the function that reads it, for messages."""
        return self.name, self.reader

    def refusal(self, place: Place) -> str:
        """Return what is at a place instead of an MDS dataset, and what reads it."""
        name, reader = self.described(place)
        found = f"there is no MDS dataset at {place.url}, but {name}"
        return f"{found}. Read it in place with {reader}({place.url!r})"


class ParquetKind(Kind):
    """A kind of data whose values are in Parquet files, which `convert` turns into shards."""

    @abstractmethod
    def open(self, place: Place) -> ParquetDataset:
        """Open the data at a place, which are of this kind."""

    def refusal(self, place: Place) -> str:
        """Return what is at a place, and that it can be converted, or read in place."""
        name, reader = self.described(place)
        return (
            f"there is no MDS dataset at {place.url}, but {name}. Convert it with: mdstorm convert "
            f"{shlex.quote(place.url)} DST; or read it in place with {reader}({place.url!r})"
        )


def kinds_asked(*turns: _Turn) -> list[Kind]:
    """Return the kinds that are asked at some points, in the order of these."""
    return [kind for turn in turns for kind in KINDS.values() if kind.asked == turn]
