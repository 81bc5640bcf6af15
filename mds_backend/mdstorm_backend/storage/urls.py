"""Normalise URLs, and recognise mounts of remote storage."""

from __future__ import annotations

import os
import re
from typing import Any

from mdstorm_backend.errors import UnsupportedURLError

#: Where Databricks mounts remote storage into the local file tree (FUSE).
FUSE_PREFIXES = ("/dbfs/", "/Volumes/", "/Workspace/")
#: Object stores, which have buckets and no directories: a missing bucket is not created implicitly,
#: since its name may be a typo.
OBJECT_STORES = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"}


def is_on_mount(path: str) -> bool:
    """Whether a local path is on one of these mounts, which is no local disk."""
    return path.startswith(FUSE_PREFIXES)


def has_scheme(url: str) -> bool:
    """Whether `url` names its storage: it has a scheme, or is on a Databricks mount."""
    scheme, colon, _ = url.partition(":")
    return bool(colon and scheme.isidentifier()) or is_on_mount(url)


def url_of(place: Any) -> Any:
    """Return the URL of a local path object; anything else, such as a URL, unchanged."""
    return f"file://{os.path.abspath(place)}" if isinstance(place, os.PathLike) else place


def normalize_url(url: str) -> str:
    """Return the one spelling of `url` that mdstorm uses.

    ``file:/x``, ``FILE:///x`` and a local path, with ``~`` expanded, become ``file:///x``;
    ``dbfs:/x`` becomes the path of the mount, ``file:///dbfs/x`` or ``file:///Volumes/x``. A
    trailing slash is dropped.

    Raises
    ------
    UnsupportedURLError
        If a ``file:`` or ``dbfs:`` URL names a host, as ``file://tmp/x`` does, or is relative; if
        another URL names nothing, as ``s3://`` does, or no bucket, as ``s3:///x``; or if it is a
        path on Windows.
    """
    scheme, colon, rest = url.partition(":")
    if not (colon and scheme.isidentifier()):
        return "file://" + os.path.abspath(os.path.expanduser(url))
    if len(scheme) == 1:
        raise UnsupportedURLError(
            f"{url!r} is a path on Windows, which is not supported. In WSL the drive is /mnt/"
            f"{scheme.lower()}"
        )
    scheme = scheme.lower()
    if scheme not in ("file", "dbfs"):
        if not rest.strip("/"):
            raise UnsupportedURLError(f"{url!r} is incomplete: write {scheme}://bucket/directory")
        if scheme in OBJECT_STORES and not re.match("//[^/]", rest):
            raise UnsupportedURLError(
                f"{url!r} has no bucket. URLs must be of the form {scheme}://bucket/path"
            )
        return f"{scheme}:{rest.rstrip('/')}"
    if rest.startswith("//~"):
        raise UnsupportedURLError(
            f"{url!r} has the host '~': only paths have a home directory. Write {rest[2:]!r}, or "
            f"{scheme}://{os.path.expanduser(rest[2:])}"
        )
    if not rest.startswith("/") or (rest.startswith("//") and not rest.startswith("///")):
        what = f"the host {rest[2:].partition('/')[0]!r}" if rest.startswith("/") else "no root"
        raise UnsupportedURLError(
            f"{url!r} has {what}, but a {scheme} URL needs an absolute path: write "
            f"{scheme}:///{rest.strip('/')}"
        )
    path = "/" + rest.strip("/")
    if scheme == "file" or path.startswith("/Volumes/"):
        return "file://" + path
    return "file:///dbfs" + path
