"""Whether a file of settings can still be read by those that read its format."""

from __future__ import annotations

import configparser
import json
import sys
from collections.abc import Callable
from pathlib import PurePath

from mdstorm_migrate.base.edits import EditError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def _parse_ini(text: str) -> None:
    configparser.RawConfigParser(strict=False).read_string(text)


#: How a file is read, by its ending.
_PARSERS: dict[str, Callable[[str], object]] = {
    ".toml": tomllib.loads,
    ".json": json.loads,
    ".cfg": _parse_ini,
    ".ini": _parse_ini,
}
#: TOML under other names.
_TOML = ("Pipfile",)


def check_format(path: PurePath | None, before: str, after: str) -> None:
    """Raise if a text parsed and what has become of it does not.

    What is no file of TOML, JSON or INI passes.

    Raises
    ------
    EditError
        The message has the reason of the parser.
    """
    if path is None:
        return
    suffix = ".toml" if path.name in _TOML else path.suffix.lower()
    parse = _PARSERS.get(suffix)
    if parse is None or _error(parse, before) is not None:
        return
    if (error := _error(parse, after)) is not None:
        raise EditError(f"the outcome would not parse: {error}")


def _error(parse: Callable[[str], object], text: str) -> Exception | None:
    try:
        parse(text)
    except (ValueError, configparser.Error) as error:
        return error
    return None
