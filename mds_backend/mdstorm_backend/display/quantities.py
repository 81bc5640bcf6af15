"""Numbers, sizes and places as people read them."""

from __future__ import annotations

import re

from mdstorm_backend.storage.urls import redact

_UNITS = ("kB", "MB", "GB", "TB", "PB")
#: Everything before the last ``@`` may belong to a password.
_PASSWORD = re.compile(r"(://[^/:@]*:)[^\s,]*(?=@)")
#: The values of a query: which of them are secret, each storage decides.
_QUERY_VALUE = re.compile(r"([?&][^=&#\s/]+=)[^&#\s,]+")
_HIDDEN = r"\1***"


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun, such as ``"1 shard"`` or ``"2,000 shards"``."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def human_bytes(size: float) -> str:
    """Return a number of bytes for people, in powers of 1,000: ``"1.2 GB"``."""
    if size < 1000:
        return f"{size:.0f} B"
    for unit in _UNITS:
        size /= 1000
        if size < 999.95:  # 1,000.0 of the next unit are shown as 1.0
            return f"{size:,.1f} {unit}"
    return f"{size:,.1f} {_UNITS[-1]}"


def shown_place(url: str) -> str:
    """Return a URL without what may be secret in it: passwords, and the values of queries."""
    shown = redact(_PASSWORD.sub(_HIDDEN, url))
    return _QUERY_VALUE.sub(_HIDDEN, shown) if "://" in shown else shown
