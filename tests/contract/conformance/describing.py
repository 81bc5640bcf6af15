"""Describe a program's results in short strings that do not depend on the library."""

import builtins
import datetime
import decimal
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

#: Non-builtin errors that code written for Petastorm catches by name.
_KNOWN = frozenset(
    {
        "DecodeFieldError",
        "NoDataAvailableError",
        "PetastormMetadataError",
        "PetastormMetadataGenerationError",
    }
)


def describe(value: Any) -> Any:
    """Convert a program's result to JSON values, with all types and shapes."""
    if isinstance(value, np.ndarray):
        return f"ndarray {value.dtype} {value.shape} {_text(value.tolist())}"
    if type(value).__module__.startswith("torch") and hasattr(value, "dtype"):
        return f"{value.dtype} {tuple(value.shape)} {_text(value.tolist())}"
    if hasattr(value, "_fields"):
        fields = {name: describe(getattr(value, name)) for name in value._fields}
        return {type(value).__name__: fields}
    if isinstance(value, Mapping):
        return {_key(key): describe(element) for key, element in value.items()}
    if isinstance(value, list):
        return [describe(element) for element in value]
    if isinstance(value, tuple):
        return {"tuple": [describe(element) for element in value]}
    if isinstance(value, str) and type(value) is str:
        return value
    if value is None or type(value) in (bool, int):
        return value
    return _text(value)


def _key(key: Any) -> str:
    return key if isinstance(key, str) else repr(key)


def _text(value: Any) -> str:
    """Return a value's repr, written the same way for all versions of Python and NumPy."""
    if isinstance(value, list):
        return f"[{', '.join(_text(element) for element in value)}]"
    if isinstance(value, np.ndarray):
        return str(describe(value))
    if isinstance(value, np.generic):
        return f"{type(value).__name__.rstrip('_')} {value.item()!r}"
    if isinstance(value, np.dtype):
        return f"dtype {value}"
    if isinstance(value, type):
        return f"class {value.__name__.rstrip('_')}"
    if type(value).__name__ == "EagerTensor":
        values = np.asarray(value.numpy()).tolist()
        return f"tf.{value.dtype.name} {tuple(value.shape)} {_text(values)}"
    if type(value).__name__ == "Categorical":
        return f"Categorical {_text(list(value))}"
    plain = (type(None), bool, int, float, str, bytes, complex)
    known = (decimal.Decimal, datetime.date, datetime.timedelta)
    if isinstance(value, plain + known):
        return repr(value)
    raise TypeError(f"a program returned {value!r}, a {type(value)}: return plain data")


def error_of(act: Callable[[], Any], says: str = "") -> Any:
    """Call `act`, and return the names of the classes that would catch the error that it raises.

    The result contains `says` if that text is part of the message, and otherwise the whole message.
    """
    try:
        result = act()
    except Exception as error:
        names = [cls.__name__ for cls in type(error).__mro__ if _is_caught(cls)]
        found = says in str(error) or str(error)
        return {"raises": names, "says": says if found is True else str(error)}
    return {"returns": describe(result)}


def _is_caught(cls: type) -> bool:
    if cls in (Exception, BaseException, object):
        return False
    return (
        cls.__name__ in _KNOWN
        or cls.__module__.startswith("tensorflow")
        or getattr(builtins, cls.__name__, None) is cls
    )


def warnings_of(act: Callable[[], Any], *fragments: str) -> Any:
    """Return, by fragment, the categories of the warnings from `act` that contain the fragment."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        act()
    texts = [(str(warning.message), warning.category.__name__) for warning in caught]
    return {
        fragment: sorted({category for text, category in texts if fragment in text})
        for fragment in fragments
    }


def agree(recorded: Any, found: Any) -> bool:
    """Whether two results are equal, except that errors in `found` may have more base classes."""
    if isinstance(recorded, dict) and isinstance(found, dict):
        if recorded.keys() != found.keys():
            return False
        if recorded.keys() == {"raises", "says"}:
            same_text = recorded["says"] == found["says"]
            return same_text and {*recorded["raises"]} <= {*found["raises"]}
        return list(recorded) == list(found) and all(
            agree(value, found[key]) for key, value in recorded.items()
        )
    if isinstance(recorded, list) and isinstance(found, list):
        return len(recorded) == len(found) and all(map(agree, recorded, found))
    return type(recorded) is type(found) and recorded == found
