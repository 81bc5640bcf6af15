"""Numbers, sizes and URLs as people read them, without secrets."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mdstorm_backend.storage.urls import redact

_UNITS = ("kB", "MB", "GB", "TB", "PB")
#: Everything before the last ``@`` may be part of a password.
_PASSWORD = re.compile(r"(://[^/:@]*:)[^\s,]*(?=@)")
#: Values in a URL's query string. Depending on the storage, any of them may be a secret.
_QUERY_VALUE = re.compile(r"([?&][^=&#\s/]+=)[^&#\s,]+")
_HIDDEN = r"\1***"


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun, such as ``"1 shard"`` or ``"2,000 shards"``."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def human_bytes(size: float) -> str:
    """Return a human-readable size, in powers of 1,000: ``"1.2 GB"``."""
    if size < 1000:
        return f"{size:.0f} B"
    for unit in _UNITS:
        size /= 1000
        if size < 999.95:  # 999.95 and above would be shown as 1,000.0
            return f"{size:,.1f} {unit}"
    return f"{size:,.1f} {_UNITS[-1]}"


def shown_url(url: str) -> str:
    """Return a URL with possible secrets hidden: passwords and query values."""
    shown = redact(_PASSWORD.sub(_HIDDEN, url))
    return _QUERY_VALUE.sub(_HIDDEN, shown) if "://" in shown else shown


def shown_urls(urls: Sequence[str]) -> str:
    """Return the first of one or more URLs, with the number of the others."""
    return f"{urls[0]} (and {counted(len(urls) - 1, 'other')})" if len(urls) > 1 else urls[0]
