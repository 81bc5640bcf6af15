"""Code shared by both commands: options, exit codes, the files to scan, and the configuration."""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import click

from mdstorm_migrate.base.needs import Wanted
from mdstorm_migrate.rules import all_rules
from mdstorm_migrate.run.discover import GlobError, Skipped, discover

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLE = "tool.mdstorm.migrate"
_FILE = "pyproject.toml"


class ConfigError(ValueError):
    """An invalid configuration."""


@dataclass(frozen=True)
class Config:
    """The ``[tool.mdstorm.migrate]`` table; ``--exclude`` adds to it, other options override it.

    Attributes
    ----------
    unsafe, todo : bool
    select, ignore, include, exclude : tuple of str
    requirement : str
        The requirement for mdstorm to write.
    index : str
        The index on which pip also finds mdstorm; empty if no other index is needed.
    """

    unsafe: bool = False
    todo: bool = True
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    requirement: str = "mdstorm"
    index: str = ""


def rule_codes(values: Iterable[str]) -> tuple[str, ...]:
    """Return codes in upper case; a value may contain several codes, separated by commas.

    Raises
    ------
    ValueError
        If a code is not a prefix of any rule's code.
    """
    codes = tuple(
        code.strip().upper() for value in values for code in value.split(",") if code.strip()
    )
    for code in codes:
        if not any(rule.code.startswith(code) for rule in all_rules()):
            raise ValueError(f"no rule is called {code}; see --list-rules")
    return codes


#: Descriptions of the expected values, by the type of the default value.
_WANTED = {bool: "true or false", str: "a string", tuple: "a list of strings"}
#: Functions that convert and check the values of some keys, by key.
_PARSERS: dict[str, Callable[[Any], Any]] = {
    "select": rule_codes,
    "ignore": rule_codes,
    "requirement": lambda value: str(Wanted.parse(value)),
}


def find_config(paths: Iterable[Path]) -> Config:
    """Return the configuration of the first ``pyproject.toml`` at or above the first path."""
    first = next(iter(paths), Path()).resolve()
    for directory in (first, *first.parents):
        if (directory / _FILE).is_file():
            return read_config(directory / _FILE)
    return Config()


def read_config(path: Path) -> Config:
    """Return the configuration in a ``pyproject.toml``.

    Raises
    ------
    ConfigError
        If the file is not TOML, the table has an unknown key, or a value is invalid.
    """
    try:
        text = path.read_text("utf-8-sig")
        tables = tomllib.loads(text) if "mdstorm" in text else {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
    tools = _table(path, "tool", tables)
    mdstorm = _table(path, "tool.mdstorm", tools)
    _check_keys(path, "tool.mdstorm", mdstorm, {"migrate"})
    options = _table(path, TABLE, mdstorm)
    _check_keys(path, TABLE, options, {field.name for field in fields(Config)})
    return Config(**{name: _value(path, name, value) for name, value in options.items()})


def _table(path: Path, name: str, around: dict[str, Any]) -> dict[str, Any]:
    """Return a nested table, or an empty table if it is missing."""
    found = around.get(name.rpartition(".")[2], {})
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: [{name}] must be a table, found {_shown(found)}")
    return found


def _check_keys(path: Path, name: str, table: dict[str, Any], known: set[str]) -> None:
    for key in table:
        if key not in known:
            raise ConfigError(f"{path}: [{name}] has no key {key!r}; its keys are {sorted(known)}")


def _value(path: Path, name: str, value: Any) -> Any:
    """Return the value of a key, which must have the type of its default."""
    kind = type(getattr(Config, name))
    is_list = isinstance(value, list) and all(isinstance(one, str) for one in value)
    if not (is_list if kind is tuple else isinstance(value, kind)):
        wrong = f"must be {_WANTED[kind]}, found {_shown(value)}"
        raise ConfigError(f"{path}: {name} in [{TABLE}] {wrong}")
    try:
        return _PARSERS.get(name, kind)(value)
    except ValueError as error:
        raise ConfigError(f"{path}: {name} in [{TABLE}]: {error}") from None


def _shown(value: Any) -> str:
    """Return a value roughly as TOML writes it."""
    return json.dumps(value, default=str, ensure_ascii=False)


_INTERRUPTED = 130
NOTHING_LEFT, PENDING, FAILED = 0, 1, 3

#: Click settings for both commands.
CONTEXT = {"help_option_names": ["-h", "--help"]}


def examples(*lines: str) -> str:
    """Return the epilog of a command's help: command lines to copy."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


_Function = TypeVar("_Function", bound=Callable[..., Any])


def files_and_reports(
    formats: Sequence[str], *, report_help: str, format_help: str
) -> Callable[[_Function], _Function]:
    """Return a decorator that adds the options for files, processes and reports."""
    options = [
        click.option(
            "--include",
            multiple=True,
            metavar="GLOB",
            help="Scan only matching files; by default all that may use Petastorm.",
        ),
        click.option(
            "--exclude",
            multiple=True,
            metavar="GLOB",
            help="Skip matching files; by default only those that git ignores.",
        ),
        click.option(
            "-j",
            "--jobs",
            type=click.IntRange(min=1),
            metavar="N",
            help="Number of processes; by default one per processor, at most 8.",
        ),
        click.option(
            "--report",
            "reports",
            multiple=True,
            type=click.Path(path_type=Path),
            metavar="FILE",
            help=report_help,
        ),
        click.option("--format", "format_", type=click.Choice(formats), help=format_help),
    ]

    def decorated(function: _Function) -> _Function:
        for option in reversed(options):
            function = option(function)
        return function

    return decorated


def found_files(
    roots: Sequence[Path], config: Config, options: dict[str, Any]
) -> Iterator[Path | Skipped]:
    """Yield the files to scan.

    ``--include`` replaces the configured globs, and ``--exclude`` adds to them.
    """
    include = options["include"] or config.include
    return discover(roots, include, (*config.exclude, *options["exclude"]))


def jobs_of(options: dict[str, Any]) -> int:
    """Return the number of processes."""
    return options["jobs"] or min(os.cpu_count() or 1, 8)


def exit_code(work: Callable[[], int], interrupted: str) -> int:
    """Return the exit code of `work`; configuration errors become usage errors."""
    was_collecting = gc.isenabled()
    gc.disable()  # garbage collection among the nodes of syntax trees takes half the time
    try:
        return work()
    except (ConfigError, GlobError) as error:
        raise click.UsageError(str(error)) from None
    except KeyboardInterrupt:
        click.echo(interrupted, err=True)
        return _INTERRUPTED
    finally:
        if was_collecting:
            gc.enable()
