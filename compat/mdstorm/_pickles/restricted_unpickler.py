"""Read a pickle without executing it."""

from __future__ import annotations

import functools
import io
import pickle
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from mdstorm._pickles.instruction_check import check_instructions
from mdstorm._pickles.known_names import KNOWN, current_name
from mdstorm.errors import UnsafePickleError

#: Petastorm's metadata takes kilobytes; an index of millions of values takes megabytes.
_MAX_BYTES = 1 << 28
#: As many as a field has.
_MOST_ARGUMENTS = 5


class StandIn:
    """Stands for what a pickle names: its subclasses for classes, their instances for objects.

    It keeps what the pickle would do with it, and does nothing. Neither instances nor classes can
    be given other attributes, and instances are equal to themselves alone.

    Attributes
    ----------
    name : str
        What it stands for, as Petastorm, Python 3 and NumPy 1 name it: ``decimal.Decimal``.
    arguments : tuple
        What the object is made with.
    state : object
        What it is given as its state; None if there is nothing.
    entries : list of tuple
        Keys and values that are set in it as in a dict.
    """

    __slots__ = ("arguments", "entries", "state")
    name: ClassVar[str]
    arguments: tuple[Any, ...]
    entries: list[tuple[Any, Any]]
    state: Any

    def __new__(cls, *arguments: Any) -> Any:
        if len(arguments) > _MOST_ARGUMENTS:  # which are copied for each object
            raise TypeError("more arguments than anything has")
        self = super().__new__(cls)
        self.arguments, self.state, self.entries = arguments, None, []
        return self

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __setitem__(self, key: Any, value: Any) -> None:
        self.entries.append((key, value))


class _Reconstructed(StandIn):
    """``copyreg._reconstructor(class, base, values)``: an object in protocols 0 and 1."""

    __slots__ = ()

    def __new__(cls, made: Any, base: Any, values: Any) -> Any:
        return made(*(values or ()))  # nothing else than a stand-in can be called


class _Restored(StandIn):
    """``pyspark.serializers._restore(name, fields, values)``: a namedtuple that Spark pickled."""

    __slots__ = ()

    def __new__(cls, name: Any, fields: Any, values: Any) -> Any:
        if name != "UnischemaField":
            raise TypeError("a namedtuple that is no field")
        return _stand_in("petastorm.unischema.UnischemaField")(*values)


def read_pickle(data: bytes) -> Any:
    """Return what a pickle of any protocol describes.

    Returns
    -------
    object
        Of plain values and containers; of `StandIn` in the place of everything else.

    Raises
    ------
    UnsafePickleError
        If it names something else than Petastorm's metadata do, is not a pickle, or uses
        instructions that Petastorm's never use.
    """
    if len(data) > _MAX_BYTES:
        raise UnsafePickleError(
            f"A pickle of {len(data)} bytes is not loaded: Petastorm's metadata takes kilobytes"
        )
    with damage_refused(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of strings that are damaged
        check_instructions(data)
        # Python 2 had no bytes apart from strings.
        return _Unpickler(io.BytesIO(data), encoding="latin-1").load()


class _Unpickler(pickle.Unpickler):
    """Finds stand-ins for known names, and nothing else: persistent ids and extensions neither."""

    def find_class(self, module: str, name: str) -> type[StandIn]:
        known = current_name(f"{module}.{name}")
        if known not in KNOWN:
            raise UnsafePickleError(
                f"global '{module[:100]}.{name[:100]}' is forbidden: pickles in Petastorm's "
                "metadata name only the classes of schemas and row group indexes. This one was "
                "written by something else, or with a codec of your own; none of it was run"
            )
        return _stand_in(known)


@contextmanager
def damage_refused() -> Iterator[None]:
    """Raise the error for a pickle that is damaged, whatever fails in the block."""
    try:
        yield
    except UnsafePickleError:
        raise
    except (
        *(ArithmeticError, AttributeError, EOFError, LookupError, TypeError, ValueError),
        pickle.UnpicklingError,
    ) as error:
        raise UnsafePickleError(
            f"Petastorm would not write this pickle ({type(error).__name__} while reading it): it "
            "is damaged, or was written by something else"
        ) from error


def refused(what: str) -> UnsafePickleError:
    """Return the error for allowed parts that are combined in a way Petastorm never does."""
    return UnsafePickleError(
        f"Petastorm would not write this metadata: {what}. It is damaged, or was written by "
        "something else"
    )


def expect(node: Any, what: str, *names: str) -> StandIn:
    """Return an object if it is one of the classes `names`.

    Raises
    ------
    UnsafePickleError
        If not: it says that the object is no `what`.
    """
    if isinstance(node, StandIn) and node.name in names:
        return node
    raise refused(f"{getattr(node, 'name', type(node).__name__)} is no {what}")


@functools.cache
def _stand_in(name: str) -> type[StandIn]:
    base = _SPECIAL.get(name, StandIn)
    return type(name, (base,), {"__slots__": (), "name": name})


_SPECIAL = {"copyreg._reconstructor": _Reconstructed, "pyspark.serializers._restore": _Restored}
