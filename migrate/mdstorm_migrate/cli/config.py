"""``[tool.mdstorm.migrate]`` in ``pyproject.toml``: what a project asks for on every run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from mdstorm_migrate.packaging.toml_text import toml_keys, toml_strings

__all__ = ["Config", "ConfigError", "find_config", "read_config"]

TABLE = "tool.mdstorm.migrate"
_FILE = "pyproject.toml"


class ConfigError(ValueError):
    """A configuration that cannot be understood."""


@dataclass(frozen=True)
class Config:
    """What stands in the table. Options of the command line come before it.

    Attributes
    ----------
    unsafe, todo : bool
    select, ignore, include, exclude : tuple of str
    """

    unsafe: bool = False
    todo: bool = True
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


def find_config(paths: Iterable[Path]) -> Config:
    """Return the configuration of the first ``pyproject.toml`` at or above the first path."""
    first = next(iter(paths), Path()).resolve()
    for directory in (first, *first.parents):
        if (directory / _FILE).is_file():
            return read_config(directory / _FILE)
    return Config()


def read_config(path: Path) -> Config:
    """Return the configuration in a file.

    Strings, lists of strings and booleans are all that it may hold, so that no TOML parser is
    needed, which Python 3.10 does not have.

    Raises
    ------
    ConfigError
        If the table has an unknown key, or a value of another type than is asked for.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
    config = Config()
    known = {field.name for field in fields(Config)}
    strings = [one for one in toml_strings(text) if one.table == TABLE]
    for key in toml_keys(text):
        if key.table != TABLE:
            continue
        if key.name not in known:
            raise ConfigError(
                f"{path}: [{TABLE}] has no key {key.name!r}; it knows {sorted(known)}"
            )
        raw = text[key.value_start : key.value_stop].partition("#")[0].strip()
        values = tuple(one.value for one in strings if one.key == key.name)
        changes: dict[str, Any] = {key.name: _value(key.name, raw, values, path)}
        config = replace(config, **changes)
    return config


def _value(name: str, raw: str, strings: tuple[str, ...], path: Path) -> Any:
    """Return the value of a key, of the type that its default has."""
    default = getattr(Config, name)
    if isinstance(default, bool) and raw in ("true", "false"):
        return raw == "true"
    if isinstance(default, tuple) and raw.startswith("["):
        return strings
    wanted = "true or false" if isinstance(default, bool) else "a list of strings"
    raise ConfigError(f"{path}: {name} in [{TABLE}] must be {wanted}, found {raw}")
