"""Remember which DataFrames were converted, in this process and under cache keys."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mdstorm._public import public
from mdstorm._spark.identity import Identity
from mdstorm_backend.format import INDEX_NAME
from mdstorm_backend.storage import Location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@public("mdstorm.spark.spark_dataset_converter")
@dataclass(frozen=True)
class CachedDataFrameMeta:
    """A conversion that this process remembers.

    Attributes
    ----------
    row_group_size : int
        Largest size of a shard in bytes.
    compression_codec : str or None
        The compression of its shards.
    dtype : str or None
        What floating-point columns became.
    parent_cache_dir_url, cache_dir_url : str
        Where copies are kept, and the copy itself.
    frame : pyspark.sql.DataFrame or None
        The frame itself where a plan can be compared; None on Spark Connect.

    Notes
    -----
    The attributes, but for `frame`, are those of Petastorm's class of this name.
    """

    row_group_size: int
    compression_codec: str | None
    dtype: str | None
    parent_cache_dir_url: str
    cache_dir_url: str
    frame: DataFrame | None = None

    @property
    def df_plan(self) -> Any:
        """The analyzed plan of the frame, an object of the JVM; None on Spark Connect."""
        return None if self.frame is None else self.frame._jdf.queryExecution().analyzed()


_conversions: dict[str, CachedDataFrameMeta] = {}
#: Held through the look-up and the conversion: equal frames in several threads are written once.
_lock = threading.RLock()


def find_or_convert(
    df: DataFrame,
    identity: Identity,
    parent_dir_url: str,
    options: Mapping[str, Any],
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
    options : mapping
        ``shard_size``, ``compression`` and ``dtype`` of the conversion, to be remembered, and
        further ones, which the identity tells apart.
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
        _conversions[identity.content] = CachedDataFrameMeta(
            options["shard_size"],
            options["compression"],
            options["dtype"],
            parent_dir_url,
            dir_url,
            df if hasattr(df, "_jdf") else None,
        )
        return dir_url


def forget(dir_url: str) -> None:
    """Forget the conversion that wrote `dir_url`."""
    with _lock:
        for content, conversion in list(_conversions.items()):
            if conversion.cache_dir_url == dir_url:
                del _conversions[content]


def _remembered(identity: Identity, df: DataFrame) -> str | None:
    """Return the copy that this process has made, if it is still there."""
    found = _conversions.get(identity.content)
    usable = found and _exists(found.cache_dir_url) and _same_plan(found.frame, df)
    return found.cache_dir_url if found and usable else None


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
