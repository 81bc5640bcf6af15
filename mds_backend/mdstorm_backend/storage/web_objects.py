"""Download files from web servers, with what the servers state about their versions."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from mdstorm_backend.storage.local_files import Version, parsed_time, tag_of

_logger = logging.getLogger(__name__)

_CHUNK = 1 << 20


def is_web(filesystem: Any) -> bool:
    """Whether a file system, or a file system class, is fsspec's for HTTP."""
    return hasattr(filesystem, "_raise_not_found_for_status")


def modification_time(filesystem: Any, url: str) -> str:
    """Return when a file was modified, as the server states it; "" if it does not.

    Versions of fsspec before 2025.9, such as those of Databricks' runtimes, leave the time out of
    their description of a file.
    """
    from aiohttp import ClientError
    from fsspec.asyn import sync

    async def time_of_file() -> str:
        session = await filesystem.set_session()
        options = {"allow_redirects": True, **filesystem.kwargs}
        try:
            async with session.head(filesystem.encode_url(url), **options) as response:
                return str(response.headers.get("Last-Modified", "")) if response.ok else ""
        except (ClientError, asyncio.TimeoutError) as error:
            # Some servers do not answer this method, for which fsspec requests the file itself.
            _logger.debug("a web server does not answer HEAD: %s", type(error).__name__)
            return ""

    when: str = sync(filesystem.loop, time_of_file)
    return when


def download_object(filesystem: Any, url: str, target: str) -> Version:
    """Copy a file to the local path `target`; an error may leave a partial file.

    Returns
    -------
    Version
        The version of the file.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    """
    from fsspec.asyn import sync

    async def copy() -> Version:
        session, options = await filesystem.set_session(), dict(filesystem.kwargs)
        # A compressed response would have another entity tag than the file.
        headers = {**options.pop("headers", {}), "Accept-Encoding": "identity"}
        address = filesystem.encode_url(url)
        async with session.get(address, headers=headers, **options) as response:
            filesystem._raise_not_found_for_status(response, url)
            with open(target, "wb") as file:
                while chunk := await response.content.read(_CHUNK):
                    file.write(chunk)
            found = response.headers
            times = map(parsed_time, (found.get("Last-Modified"), found.get("Date")))
            return Version(tag_of(found), *times)

    version: Version = sync(filesystem.loop, copy)
    return version
