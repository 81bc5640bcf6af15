"""Pickle functions, including lambdas and functions defined in ``__main__``."""

from __future__ import annotations

import functools
import importlib
import inspect
import pickle
from collections.abc import Callable
from types import ModuleType
from typing import Any

from mdstorm.errors import MissingDependencyError


def pickle_function(function: Any) -> bytes:
    """Pickle a function, or an object that holds functions, by value if needed.

    Raises
    ------
    MissingDependencyError
        If that needs a library that is not installed.
    """
    library = _cloudpickle()
    if library is not None:
        return library.dumps(function)  # type: ignore[no-any-return]
    try:
        return pickle.dumps(function)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise MissingDependencyError(
            f"the function cannot be sent to another process by pickle ({error}). Install the "
            "library that can: pip install cloudpickle, or read with reader_pool_type='thread'"
        ) from error


def unpickle_function(pickled: bytes) -> Any:
    """Load what `pickle_function` made, in this process or in one that it started."""
    return pickle.loads(pickled)  # noqa: S301  # never from a dataset


def function_identity(function: Callable[..., Any] | None) -> bytes:
    """Return an identity that changes with a function, or with what it calls in its module.

    Equal functions may have different identities; different functions never share one, unless they
    differ only in what they call in other modules.
    """
    if function is None:
        return b""
    if isinstance(function, functools.partial):
        given = pickle_function((function.args, function.keywords))
        return function_identity(function.func) + given
    library, module = _cloudpickle(), inspect.getmodule(function)
    if library is None:
        return pickle_function(function) + _source_of(module)
    if module is None or module.__name__ in ("__main__", *library.list_registry_pickle_by_value()):
        return pickle_function(function)
    library.register_pickle_by_value(module)
    try:
        return pickle_function(function)
    except Exception:  # its module holds what cannot be pickled
        pass
    finally:
        library.unregister_pickle_by_value(module)
    return pickle_function(function) + _source_of(module)


def _source_of(module: ModuleType | None) -> bytes:
    try:
        return b"" if module is None else inspect.getsource(module).encode()
    except (OSError, TypeError):
        return b""


def _cloudpickle() -> Any:
    """Return cloudpickle, alone or from another library that includes it, or None."""
    for name in ("cloudpickle", "pyspark.cloudpickle"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None
