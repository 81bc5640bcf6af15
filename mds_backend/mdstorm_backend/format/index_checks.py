"""Check the values of an index, which may come from anywhere.

Each function returns the value it was given, with the type that it has then been found to have, or
raises TypeError or ValueError with a text that names the entry.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from mdstorm_backend.errors import UnsupportedEncodingError
from mdstorm_backend.format.encodings import parse_encoding

#: NumPy's limit for one element, of which a sample of fixed-size columns is one.
_MAX_FIXED_BYTES = 2**31 - 1
#: The longest names that file systems and object stores take, in bytes.
_MAX_COMPONENT_BYTES, _MAX_PATH_BYTES = 255, 1024
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_\-][A-Za-z0-9_.\-]*(/[A-Za-z0-9_\-][A-Za-z0-9_.\-]*)*")
_DRIVE = re.compile(r"[A-Za-z]:")


def shown(value: object) -> str:
    """Return a short form of `value` for a message: what is wrong may also be large."""
    text = repr(value) if isinstance(value, (str, int, float, type(None))) else ""
    if not text:
        return f"of type {type(value).__name__}"
    return text if len(text) <= 80 else text[:77] + "…"


def check_object(value: Any, what: str) -> dict[str, Any]:
    """Require a JSON object."""
    if type(value) is not dict:
        raise TypeError(f"{what} is {shown(value)} and not an object")
    return value


def check_text(value: Any, what: str) -> str:
    """Require a text that can be written as UTF-8: JSON can say what Unicode cannot."""
    if type(value) is not str:
        raise TypeError(f"{what} is {shown(value)} and not a text")
    if not value.isascii():
        value.encode("utf-8")
    return value


def check_texts(value: Any, what: str) -> tuple[str, ...]:
    """Require a list of texts."""
    if type(value) is not list:
        raise TypeError(f"{what} is {shown(value)} and not a list")
    return tuple([check_text(item, what) for item in value])


def check_count(value: Any, what: str, limit: int = 2**63 - 1) -> int:
    """Require an integer from 0 to `limit`; a truth value is none."""
    if type(value) is not int:
        raise TypeError(f"{what} is {shown(value)} and not an integer")
    if not 0 <= value <= limit:
        raise ValueError(f"{what} is not between 0 and {limit}")
    return value


def check_basename(value: Any, reserved: str) -> str:
    """Require the path of a file below the directory of the dataset.

    Raises
    ------
    ValueError
        If it leads elsewhere: it is empty or absolute, has an empty, ``.`` or ``..`` component, a
        drive letter, a backslash or a NUL, or is the name `reserved`; or if it is too long to be
        the name of a file.
    """
    name = check_text(value, "a basename")
    size = len(name) if name.isascii() else len(name.encode("utf-8"))
    components = name.split("/")
    if not _PLAIN_PATH.fullmatch(name) and (
        any(component in ("", ".", "..") for component in components)
        or "\\" in name
        or "\0" in name
        or _DRIVE.match(name)
    ):
        raise ValueError(
            f"the basename {shown(name)} is not the name of a file inside the directory of the "
            "dataset"
        )
    if size > _MAX_PATH_BYTES or (
        size > _MAX_COMPONENT_BYTES
        and any(len(part.encode("utf-8")) > _MAX_COMPONENT_BYTES for part in components)
    ):
        raise ValueError(f"the basename {shown(name)} is longer than a file's name can be")
    if name == reserved:
        raise ValueError(f"the basename {name!r} is the index itself")
    return name


def check_sizes(
    value: Any, names: tuple[str, ...], encodings: tuple[str, ...]
) -> tuple[int | None, ...]:
    """Require one size per column, None where it varies.

    It need not be that of the encoding, whose name the writer may have given another meaning.
    """
    if type(value) is not list:
        raise TypeError(f"column_sizes is {shown(value)} and not a list")
    if not len(names) == len(encodings) == len(value):
        raise ValueError("column_names, column_encodings and column_sizes differ in length")
    if len(set(names)) < len(names):
        raise ValueError("column_names holds one name twice")
    for name, encoding, size in zip(names, encodings, value, strict=True):
        if size is not None:
            check_count(size, "a size in column_sizes", _MAX_FIXED_BYTES)
        if size == 0:
            raise ValueError(f"column {shown(name)} has values of 0 bytes")
        try:
            parse_encoding(encoding)
        except UnsupportedEncodingError as error:
            raise ValueError(f"column {shown(name)}: {error}") from error
    if fixed_bytes(value) > _MAX_FIXED_BYTES:
        raise ValueError("the fixed-size columns of a sample take 2 GiB and more")
    return tuple(value)


def fixed_bytes(sizes: Sequence[int | None]) -> int:
    """Bytes that a sample takes at least: its fixed-size columns, and a word for each other one."""
    return sum([4 if size is None else size for size in sizes])


def check_depth(value: Any, what: str, limit: int = 200) -> None:
    """Require that objects and lists are nested less than `limit` deep, for those who recurse."""
    level = [value]
    for _ in range(limit):
        level = [
            child
            for item in level
            if isinstance(item, (dict, list))
            for child in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return
    raise ValueError(f"{what} is nested more than {limit} deep")
