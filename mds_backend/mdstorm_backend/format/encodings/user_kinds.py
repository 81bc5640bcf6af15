"""The classes that users registered as encodings, and the way to processes that have to know them.

Pickled by reference or, by cloudpickle, by value, they arrive as every class does. In processes of
`multiprocessing` a class that cannot be imported, as one of a notebook, must not end the process:
it may not be needed there, and otherwise an error that says so arrives where the values are used.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from typing import Any, ClassVar, TypeAlias

from mdstorm_backend.errors import UnsupportedEncodingError
from mdstorm_backend.format.encodings.encoding import Encoding
from mdstorm_backend.format.encodings.opaque import Opaque
from mdstorm_backend.format.encodings.user_encoding import (
    UnsafeUserEncoding,
    UserEncoding,
    value_size,
)

#: A class, or whatever else makes a coder when it is called without arguments.
MakeCoder: TypeAlias = Callable[[], Any]


@dataclass(frozen=True)
class UserKind:
    """A name and the class that a user registered for it.

    Attributes
    ----------
    name : str
        The encoding, without parameters.
    make : callable
        Makes a coder. If the text of an encoding has parameters, after a colon, its method
        ``from_str(parameters)`` makes it.
    is_unsafe : bool
        Whether the name is that of an encoding whose values may be programs.
    """

    name: str
    make: MakeCoder
    is_unsafe: bool = False

    is_opaque: ClassVar[bool] = False

    def parse(self, text: str, parameters: str) -> Encoding | None:
        """Return the encoding of a text, or None if it takes no parameters.

        Raises
        ------
        UnsupportedEncodingError
            If the class makes no coder of the parameters.
        """
        from_str = getattr(self.make, "from_str", None)
        if parameters and from_str is None:
            return None
        try:
            coder = from_str(parameters) if parameters and from_str else self.make()
            size = value_size(coder)
        except Exception as error:
            raise UnsupportedEncodingError(
                f"encoding {text!r}: the class that was registered for {self.name!r} does not "
                f"take it ({type(error).__name__}: {error})"
            ) from error
        kind = UnsafeUserEncoding if self.is_unsafe else UserEncoding
        return kind(text, coder=coder, value_size=size)


@dataclass(frozen=True)
class LostKind:
    """A name whose class another process has, and this one cannot import.

    Attributes
    ----------
    name : str
        The encoding, without parameters.
    reason : str
        Why, for the message to whoever reads such a column.
    """

    name: str
    reason: str

    is_opaque: ClassVar[bool] = True

    def parse(self, text: str, parameters: str) -> Encoding | None:
        """Return an opaque encoding that knows the reason."""
        return Opaque(text, reason=self.reason)


def send_by_name() -> None:
    """Let `multiprocessing` send the classes by their names."""
    ForkingPickler.register(UserKind, _reduce)


def _reduce(kind: UserKind) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    if not isinstance(kind.make, type):
        return UserKind, (kind.name, kind.make, kind.is_unsafe)
    return _find, (kind.name, kind.is_unsafe, kind.make.__module__, kind.make.__qualname__)


def _find(name: str, is_unsafe: bool, module: str, qualname: str) -> UserKind | LostKind:
    try:
        found: Any = importlib.import_module(module)
        for part in qualname.split("."):
            found = getattr(found, part)
    except Exception as error:  # a module may raise whatever it likes
        return LostKind(
            name,
            f"its class {qualname} of the module {module} cannot be imported by worker processes "
            f"({type(error).__name__}: {error}); define it at the top of a module of yours, or let "
            "the workers be forked",
        )
    return UserKind(name, found, is_unsafe)
