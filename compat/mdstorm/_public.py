"""Give classes and functions from inner modules their public module name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

_Defined = TypeVar("_Defined", bound=Any)


def public(module: str) -> Callable[[_Defined], _Defined]:
    """Set the module name of a decorated class or function to `module`, which re-exports it.

    Pickles, messages and documentation then show the name that users import, and stay valid when
    the definition moves.
    """

    def name_home(defined: _Defined) -> _Defined:
        defined.__module__ = module
        return defined

    return name_home
