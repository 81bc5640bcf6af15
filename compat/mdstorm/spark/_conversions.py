"""Which DataFrames have been converted, in this process and under names for other processes."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mdstorm.spark._identity import Identity
from mdstorm_backend.index import INDEX_NAME
from mdstorm_backend.storage import Location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["find_or_convert", "forget"]


@dataclass(frozen=True)
class _Conversion:
    dir_url: str
    #: The frame itself where a plan can be compared; None on Spark Connect.
    frame: DataFrame | None


_conversions: dict[str, _Conversion] = {}
#: Held through the look-up and the conversion: equal frames in several threads are written once.
_lock = threading.RLock()


def find_or_convert(
    df: DataFrame,
    identity: Identity,
    parent_dir_url: str,
    convert: Callable[[], str],
    cache_key: str | None = None,
) -> str:
    """Return the URL of the converted copy of a frame, converting it if there is none.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        The frame.
    identity : Identity
        Its identity, parent directory and options included.
    parent_dir_url : str
        Where copies, and the notes of named ones, are kept.
    convert : callable
        Writes the frame and returns the URL.
    cache_key : str, optional
        Name under which other processes find the copy as well.
    """
    with _lock:
        noted = _read_note(parent_dir_url, cache_key, identity) if cache_key else None
        dir_url = noted or _remembered(identity, df) or convert()
        if cache_key and dir_url != noted:
            _write_note(parent_dir_url, cache_key, identity, dir_url)
        _conversions[identity.content] = _Conversion(dir_url, df if hasattr(df, "_jdf") else None)
        return dir_url


def forget(dir_url: str) -> None:
    """Forget the conversion that wrote `dir_url`."""
    with _lock:
        for content, conversion in list(_conversions.items()):
            if conversion.dir_url == dir_url:
                del _conversions[content]


def _remembered(identity: Identity, df: DataFrame) -> str | None:
    """Return the copy that this process has made, if it is still there."""
    found = _conversions.get(identity.content)
    usable = found and _exists(found.dir_url) and _same_plan(found.frame, df)
    return found.dir_url if found and usable else None


def _exists(dir_url: str) -> bool:
    return Location.of(dir_url).exists(INDEX_NAME)


def _same_plan(known: DataFrame | None, df: DataFrame) -> bool:
    """Rule out that two plans share a 32-bit hash by accident, where plans can be compared."""
    return known is None or not hasattr(df, "_jdf") or known.sameSemantics(df)


def _note_name(cache_key: str) -> str:
    return f"_mdstorm_cache_key_{hashlib.sha256(cache_key.encode()).hexdigest()[:24]}"


def _read_note(parent_dir_url: str, cache_key: str, identity: Identity) -> str | None:
    """Return the copy that another process noted, if it is of the same source and still there."""
    try:
        note = json.loads(bytes(Location.of(parent_dir_url).read(_note_name(cache_key))))
        dir_url, source = str(note["directory"]), note["source"]
    except (FileNotFoundError, KeyError, TypeError, ValueError):
        return None
    return dir_url if source == identity.source and _exists(dir_url) else None


def _write_note(parent_dir_url: str, cache_key: str, identity: Identity, dir_url: str) -> None:
    note = {"cache_key": cache_key, "directory": dir_url, "source": identity.source}
    Location.of(parent_dir_url).write(_note_name(cache_key), [json.dumps(note).encode()])
