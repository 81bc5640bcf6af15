"""Write files: the outcome must still be readable, and replaces the file atomically."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path, PurePath

from mdstorm_migrate.base.edits import EditError


class WriteError(OSError):
    """A file that was not written. The message is the reason."""


def write_file(path: Path, before: bytes, after: bytes, backup: str | None = None) -> None:
    """Replace the bytes of a file; of a link, those of the file that it leads to.

    The new file has the mode and the owner of the old one.

    Parameters
    ----------
    path : Path
    before : bytes
        What the file must hold, or it is left alone.
    after : bytes
        What it will hold.
    backup : str, optional
        Where a copy of the old file goes: its name, and this after it.

    Raises
    ------
    WriteError
        If the file is read-only, was changed meanwhile, or cannot be written.
    """
    target = Path(os.path.realpath(path))
    status = check_writable(target, before)
    try:
        if backup:
            _replace(target.with_name(target.name + backup), before, status)
        _replace(target, after, status)
    except OSError as error:
        raise WriteError(error.strerror or str(error)) from error


def check_writable(path: Path, before: bytes) -> os.stat_result:
    """Return the status of a file that can be written and is as it was.

    Raises
    ------
    WriteError
        If the file is read-only, was changed meanwhile, or cannot be read.
    """
    try:
        status, data = path.stat(), path.read_bytes()
    except OSError as error:
        raise WriteError(error.strerror or str(error)) from error
    if not status.st_mode & 0o222 or not os.access(path, os.W_OK):
        raise WriteError("the file is read-only")
    if data != before:
        raise WriteError("the file was changed by another program meanwhile")
    return status


def _replace(target: Path, data: bytes, status: os.stat_result) -> None:
    """Write a file beside `target`, and give it that name when it is complete."""
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if hasattr(os, "chown"):
            with contextlib.suppress(PermissionError):  # only root gives files away
                os.chown(name, status.st_uid, status.st_gid)
        os.chmod(name, stat.S_IMODE(status.st_mode))
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


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


#: How a file is read, by its ending.
_PARSERS: dict[str, Callable[[str], object]] = {
    ".toml": _parse_toml,
    ".json": json.loads,
    ".cfg": _parse_ini,
    ".ini": _parse_ini,
}
