"""Checks of arguments and of JSON, and warnings that point to the user's own code."""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cache, partial, wraps
from inspect import Parameter, signature
from numbers import Integral, Real
from types import NoneType
from typing import Any, ParamSpec, TypeGuard, TypeVar

from mdstorm_backend.base.plain_files import Buffer
from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def did_you_mean(name: str, known: Collection[str]) -> str:
    """Return ``: did you mean …?`` with the known name most similar to `name`, if any."""
    folded = {one.lower(): one for one in known}
    # Prefer names that contain the unknown name: by similarity alone, a short name may rank before
    # the intended long one.
    parts = [one for one in folded if len(name) > 4 and name.lower() in one]
    nearest = sorted(parts, key=len) or get_close_matches(name.lower(), folded, cutoff=0.65)
    return f": did you mean {folded[nearest[0]]}?" if nearest else ""


def choose_among(name: str, known: Collection[str]) -> str:
    """Return the `did_you_mean` hint, followed by a list of all known names."""
    nearest = did_you_mean(name, known)
    return f"{f'{nearest} Choose' if nearest else ': choose'} among {list(known)}"


def unknown_keyword(
    function: str, name: str, known: Collection[str], instead: str = ""
) -> ArgumentTypeError:
    """Return the error for an unknown keyword, with `instead` or else a hint based on `known`."""
    remedy = instead or did_you_mean(name, known)
    if not remedy:
        nearest = ", ".join(get_close_matches(name.lower(), known, cutoff=0))
        remedy = (
            f". The nearest keywords are {nearest}; help({function}) and docs/api of mdstorm "
            f"describe all {len(known)}"
        )
    return ArgumentTypeError(f"{function}() got an unexpected keyword argument {name!r}{remedy}")


@cache  # inspecting a signature takes half of the time in which a loader is made
def keywords_of(function: Callable[..., Any]) -> frozenset[str]:
    """Return the names of the parameters that can be passed as keywords, except ``self``."""
    kinds = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    parameters = signature(function).parameters.values()
    return frozenset(one.name for one in parameters if one.kind in kinds and one.name != "self")


def defaults_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the parameters that have a default, with their defaults."""
    parameters = signature(function).parameters.values()
    return {one.name: one.default for one in parameters if one.default is not Parameter.empty}


def suggests_keywords(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Decorate a function so that its error for an unknown keyword suggests a similar keyword.

    Its error for an argument that is not passed by name lists the first keywords. The errors are
    ArgumentTypeErrors, TypeErrors like Python's own.
    """
    return suggests_instead({})(function)


def suggests_instead(
    instead: Mapping[str, str],
) -> Callable[[Callable[_Arguments, _Result]], Callable[_Arguments, _Result]]:
    """Return `suggests_keywords` with what to do instead of passing keywords of other functions."""
    return partial(_suggesting, instead)


def _suggesting(
    instead: Mapping[str, str], function: Callable[_Arguments, _Result]
) -> Callable[_Arguments, _Result]:
    known = keywords_of(function)
    called = function.__qualname__.removesuffix(".__init__")
    kinds = {name: one.kind for name, one in signature(function).parameters.items()}
    named = [name for name, kind in kinds.items() if kind is Parameter.KEYWORD_ONLY]
    most = len(kinds) - len(named)

    @wraps(function)
    def checked(*arguments: _Arguments.args, **keywords: _Arguments.kwargs) -> _Result:
        for name in keywords.keys() - known:
            hint = instead.get(name, "")
            raise unknown_keyword(called, name, known, hint and f": {hint}")
        if named and len(arguments) > most:
            first = ", ".join(f"{name}=…" for name in named[:3])
            raise ArgumentTypeError(
                f"{called}() takes {arguments[most]!r} only by name, such as {first}"
            )
        return function(*arguments, **keywords)

    return checked


def suggests_fields(dataclass: type[_Result]) -> type[_Result]:
    """Apply `suggests_keywords` to the constructor of a dataclass."""
    made: Any = dataclass
    made.__init__ = suggests_keywords(made.__init__)
    return dataclass


def refuses_assigned_arguments(decorated: type[_Result]) -> type[_Result]:
    """Decorate a class so that assigning an argument without effect raises an AttributeError.

    These are the keyword-only arguments of its constructor that are no attributes of the class.
    Instances of subclasses are not checked, because subclasses may use any names.
    """
    made: Any = decorated
    parameters = signature(made.__init__).parameters.values()
    arguments = {
        one.name
        for one in parameters
        if one.kind is Parameter.KEYWORD_ONLY and not hasattr(decorated, one.name)
    }
    assign = made.__setattr__

    def checked(self: object, name: str, value: Any) -> None:
        if name in arguments and type(self) is decorated:
            kind = decorated.__name__
            raise AttributeError(
                f"{kind}.{name} is read only by the constructor, so assigning it would have no "
                f"effect: pass {name}=… to a new {kind}"
            )
        assign(self, name, value)

    made.__setattr__ = checked
    return decorated


def check_flag(name: str, value: object) -> None:
    """Raise ArgumentTypeError if `value` is a string or an array, whose truth is not meant.

    Even ``"False"`` would count as true.
    """
    if isinstance(value, str) or getattr(value, "ndim", False):
        raise ArgumentTypeError(f"{name} must be True or False, found {value!r}")


def check_function(name: str, value: object) -> None:
    """Raise ArgumentTypeError unless `value` is None or callable."""
    if value is not None and not callable(value):
        raise ArgumentTypeError(f"{name} must be a function, found {value!r}")


def check_list(name: str, value: object) -> None:
    """Raise ArgumentTypeError unless `value` is None or an iterable other than str or bytes."""
    if value is not None and (isinstance(value, (str, bytes)) or not isinstance(value, Iterable)):
        raise ArgumentTypeError(f"{name} must be a list, found {value!r}: put it in a list")


def check_names(name: str, value: object) -> None:
    """Raise ArgumentTypeError unless `value` is None or an iterable of strings."""
    check_list(name, value)
    given = value if isinstance(value, Collection) else ()  # others can be iterated once
    for one in given:
        if not isinstance(one, str):
            raise ArgumentTypeError(f"{name} must be a list of strings, found {one!r} in it")


def check_text(name: str, value: object) -> None:
    """Raise ArgumentTypeError unless `value` is a non-empty string."""
    if not (isinstance(value, str) and value):
        raise ArgumentTypeError(f"{name} must be a non-empty string, found {value!r}")


def check_integer(name: str, value: object, *, lowest: int | None = None) -> None:
    """Raise InvalidArgumentError unless `value` is None or an integer of at least `lowest`."""
    if value is not None and not (is_integer(value) and (lowest is None or value >= lowest)):
        bound = "" if lowest is None else f" of at least {lowest}"
        raise InvalidArgumentError(f"{name} must be an integer{bound} or None, found {value!r}")


def check_required_integer(name: str, value: object, lowest: int) -> None:
    """Raise InvalidArgumentError unless `value` is an integer of at least `lowest` in 64 bits."""
    if not (is_integer(value) and lowest <= value <= sys.maxsize):
        raise InvalidArgumentError(
            f"{name} must be an integer of at least {lowest}, in 64 bits, found {value!r}"
        )


def check_seconds(name: str, value: Any) -> None:
    """Raise InvalidArgumentError unless `value` is None or a number of seconds above 0."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if value is not None and not (is_number and value > 0):
        raise InvalidArgumentError(f"{name} must be a positive number of seconds, found {value!r}")


def check_one_of(name: str, value: Any, choices: Collection[str], *, shown: str = "") -> None:
    """Raise InvalidArgumentError unless `value` is one of the choices."""
    if not (isinstance(value, (str, NoneType)) and value in choices):
        nearest = did_you_mean(value, choices) if isinstance(value, str) else ""
        raise InvalidArgumentError(
            f"Unknown {name}: {shown or repr(value)}{nearest or '.'} Use one of {choices}"
        )


def check_mapping(name: str, value: object, *, example: str = "") -> None:
    """Raise ArgumentTypeError unless `value` is None or a mapping; `example` describes one."""
    if value is not None and not isinstance(value, Mapping):
        raise ArgumentTypeError(f"{name} must be a dict{example}, found {value!r}")
    for key in value or ():
        if not isinstance(key, str):
            raise ArgumentTypeError(f"{name} must be a dict with strings as keys, found {key!r}")


def is_integer(value: object) -> TypeGuard[int]:
    """Whether `value` is a Python or NumPy integer, and not a boolean."""
    return isinstance(value, (int, Integral)) and not isinstance(value, bool)


def make_scalars_plain(fields: object) -> None:
    """Replace NumPy scalars in a dataclass's fields by Python's, even if the class is frozen.

    NumPy's integers overflow, and states are JSON, which cannot hold NumPy's types.
    """
    for name, value in vars(fields).items():
        if getattr(value, "ndim", None) == 0:
            object.__setattr__(fields, name, value.item())


def overrides(thing: object, base: type, *names: str) -> bool:
    """Whether the class of `thing` overrides any of the methods `names` of its base class."""
    return any(getattr(type(thing), name) is not getattr(base, name) for name in names)


def parse_json(text: Buffer | str, **options: Any) -> Any:
    """Parse JSON like `json.loads`, but raise ValueError for any invalid string.

    Raises
    ------
    ValueError
        If `text` is not JSON, is nested too deeply, or holds a number that is not finite, such as
        1e400.
    """
    if isinstance(text, memoryview):
        text = bytes(text)
    try:
        return json.loads(text, parse_float=_finite, parse_constant=_finite, **options)
    except RecursionError as error:
        raise ValueError(f"RecursionError: {error}") from error


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:20]} is not finite")
    return value


_OURS = frozenset({"mdstorm", "mdstorm_backend", "mdstorm_migrate"})


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that points to the innermost frame outside mdstorm's packages."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and is_ours(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def is_ours(module: str) -> bool:
    """Whether a module name belongs to one of mdstorm's packages."""
    return module.partition(".")[0] in _OURS


@contextmanager
def naming(kind: str, function: object) -> Iterator[None]:
    """Add a note that names the user's function to any error that it raises.

    Parameters
    ----------
    kind : str
        What the function is, such as ``"predicate"``.
    function : object
        The function, or another object that is called.
    """
    try:
        yield
    except Exception as error:
        name_function(error, kind, function)
        raise


def name_function(error: Exception, kind: str, function: object) -> None:
    """Add the note of `naming` to an error."""
    if hasattr(error, "add_note"):  # since Python 3.11
        name = getattr(function, "__qualname__", repr(function))
        error.add_note(f"The {kind} {name} raised this error.")
