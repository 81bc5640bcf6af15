"""Notice at once that a storage cannot be reached.

Clients of storages try for a minute, with pauses, whether a host refuses connections, has no
address, or is only slow. The first two do not pass by themselves; how often they are tried again is
for the one who reads to say.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

#: Seconds after which a host is only slow, for which the client has time limits of its own.
_PATIENCE = 5.0
_PORTS = {"http": 80, "https": 443}
_UNREACHABLE = {errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH}

#: Protocol of a file system → its endpoint, as its client has found it in all its settings.
_ENDPOINTS: dict[str, Callable[[Any], Any]] = {
    "s3": lambda fs: fs.s3.meta.endpoint_url,
    "gs": lambda fs: fs._location,
    "abfs": lambda fs: fs.service_client.url,
}


def check_reachable(filesystem: Any) -> None:
    """Connect once to the host of a file system, if it is of a kind that would wait for long.

    Raises
    ------
    ConnectionError
        If it has no address or refuses connections.
    """
    configured = getattr(filesystem, "config_kwargs", None) or {}
    check_endpoint(_endpoint(filesystem), configured.get("proxies"))


def check_endpoint(endpoint: str, proxies: Mapping[str, str] | None = None) -> None:
    """Connect once to the host of a URL, unless a proxy does, by its scheme or the environment.

    Raises
    ------
    ConnectionError
        If it has no address or refuses connections.
    """
    url = urlsplit(endpoint)
    if not url.hostname or url.scheme in (proxies or ()) or _has_proxy(url.scheme, url.hostname):
        return
    address = (url.hostname, url.port or _PORTS.get(url.scheme, 443))
    try:
        socket.create_connection(address, timeout=_PATIENCE).close()
    except OSError as error:
        if isinstance(error, socket.gaierror) or error.errno in _UNREACHABLE:
            where = f"{url.scheme}://{url.netloc}"
            raise ConnectionError(f"{where} cannot be reached: {error.strerror}") from error


def _endpoint(filesystem: Any) -> str:
    names = filesystem.protocol
    names = {names} if isinstance(names, str) else {*names}
    find = next((_ENDPOINTS[name] for name in _ENDPOINTS if name in names), None)
    if find is None:
        return ""
    try:
        return str(find(filesystem))
    except Exception:  # whatever it is, the request itself will say so better
        return ""


def _has_proxy(scheme: str, host: str) -> bool:
    """Whether a proxy connects to the host, which may have no address here."""
    from urllib.request import getproxies, proxy_bypass  # and the modules of HTTP with it

    return scheme in getproxies() and not proxy_bypass(host)
