import typing as t
from typing import Union, cast

import petastorm.reader
from petastorm.unischema import Unischema

Rdr: t.TypeAlias = "petastorm.reader.Reader"
ReaderOrNone = t.Optional["petastorm.reader.Reader"]


class Source(t.Protocol):
    schema: Unischema

    def open(self) -> "petastorm.reader.Reader": ...

    def maybe(self, x: Union["petastorm.ngram.NGram", None] = None) -> None:  # type: (petastorm.ngram.NGram) -> None
        """Opens a :class:`petastorm.reader.Reader`."""


def f(x):
    # type: (petastorm.reader.Reader) -> petastorm.unischema.Unischema
    return cast("petastorm.unischema.Unischema", x.schema)
