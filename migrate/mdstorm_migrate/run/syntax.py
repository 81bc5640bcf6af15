"""Whether an edited file can still be parsed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import PurePath

from mdstorm_migrate.base.edits import EditError

#: Names of TOML files that do not end in ``.toml``.
_TOML = ("Pipfile",)


def check_format(path: PurePath | None, before: str, after: str) -> None:
    """Raise an error if the text `before` can be parsed, but the text `after` cannot.

    Files other than TOML, JSON and INI always pass.

    Raises
    ------
    EditError
        If the text cannot be parsed. The message contains the parser's reason.
    """
    if path is None:
        return
    suffix = ".toml" if path.name in _TOML else path.suffix.lower()
    parse = _PARSERS.get(suffix)
    if parse is None or _error(parse, before) is not None:
        return
    if (error := _error(parse, after)) is not None:
        raise EditError(f"the result would not parse: {error}")


def _error(parse: Callable[[str], object], text: str) -> Exception | None:
    try:
        parse(text)
    except ValueError as error:
        return error
    return None


def _parse_toml(text: str) -> None:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    tomllib.loads(text)


def _parse_ini(text: str) -> None:
    import configparser

    try:
        configparser.RawConfigParser(strict=False).read_string(text)
    except configparser.Error as error:
        raise ValueError(str(error)) from error


#: The parser for each suffix.
_PARSERS: dict[str, Callable[[str], object]] = {
    ".toml": _parse_toml,
    ".json": json.loads,
    ".cfg": _parse_ini,
    ".ini": _parse_ini,
}
