"""Normalise URLs, recognise mounts of remote storage, and protect credentials.

Credentials are never pickled, printed or logged.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

from mdstorm_backend.errors import InvalidArgumentError, UnsupportedURLError

#: Where Databricks mounts remote storage into the local file tree (FUSE).
FUSE_PREFIXES = ("/dbfs/", "/Volumes/", "/Workspace/")
#: Scheme of an object store → the store, by the name of the extra that installs its file system.
#: Stores have buckets and no directories: a missing bucket is not created implicitly, since its
#: name may be a typo.
OBJECT_STORES = {
    **dict.fromkeys(("s3", "s3a"), "s3"),
    **dict.fromkeys(("gs", "gcs"), "gcs"),
    **dict.fromkeys(("abfs", "abfss", "az"), "azure"),
}


def is_on_mount(path: str) -> bool:
    """Whether a local path is on a Databricks mount, rather than on a local disk."""
    return path.startswith(FUSE_PREFIXES)


def scheme_of(url: str) -> str:
    """Return the scheme of a normalised URL, the last of a chain like ``simplecache::s3://``."""
    return url.rpartition("::")[2].partition(":")[0]


def has_scheme(url: str) -> bool:
    """Whether `url` has a scheme or is on a Databricks mount, rather than a plain path."""
    scheme, colon, _ = url.partition(":")
    return bool(colon and scheme.isidentifier()) or is_on_mount(url)


def url_of(place: Any) -> Any:
    """Return the URL of a local path object, and anything else, such as a URL, unchanged."""
    return f"file://{os.path.abspath(place)}" if isinstance(place, os.PathLike) else place


def normalize_url(url: str) -> str:
    """Return `url` in the normal form that mdstorm uses.

    ``file:/x``, ``FILE:///x`` and a local path, with ``~`` expanded, become ``file:///x``;
    ``dbfs:/x`` becomes the path of the mount, ``file:///dbfs/x`` or ``file:///Volumes/x``. A
    trailing slash is dropped.

    Raises
    ------
    UnsupportedURLError
        If a ``file:`` or ``dbfs:`` URL names a host, such as ``file://tmp/x``, or is relative; if
        another URL is empty, such as ``s3://``, or has no bucket, such as ``s3:///x``; or if `url`
        is a Windows path.
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


_SECRET = re.compile(
    r"key|secret|token|passw|passphrase|credential|connection_string|signature|^sas$",
    re.IGNORECASE,
)
#: Environment variables whose values are secret; access key ids and file paths are not.
_SECRET_VARIABLE = re.compile(
    r"SECRET|TOKEN|PASSW|ACCOUNT_(ACCESS_)?KEY|CONNECTION_STRING", re.IGNORECASE
)
#: The password of ``scheme://user:password@host``, and the values of signed query strings.
_SECRET_IN_URL = re.compile(
    r"(?P<user>://[^/@:]*:)[^/@]+(?=@)"
    r"|(?P<name>[?&](sig|X-Amz-Signature|X-Amz-Security-Token|X-Goog-Signature|token)=)[^&#]+",
    re.IGNORECASE,
)
_HIDDEN = "***"
#: Shorter values may be ordinary words, which must stay readable.
_SHORTEST_SECRET = 6


def check_no_secrets(storage_options: dict[str, Any]) -> None:
    """Raise if options hold credentials, which must not be sent to other processes.

    Raises
    ------
    InvalidArgumentError
        If the name of an option looks like a credential's, or a value is a URL with a secret; the
        message does not contain the value.
    """
    secrets = sorted({name for name, _ in _secrets(storage_options)})
    if secrets:
        raise InvalidArgumentError(
            f"storage_options hold {secrets}, which would be pickled and sent to other processes, "
            "such as Spark's workers. Leave these options out, and give those processes their "
            "own credentials, by environment variables, an instance profile or the configuration "
            "of the cluster"
        )


def check_no_secret_in_url(url: str) -> None:
    """Raise if a URL contains a password or a signature, since URLs are logged and pickled.

    Raises
    ------
    InvalidArgumentError
        If the URL contains a secret; the message hides it.
    """
    if redact(url) != url:
        raise InvalidArgumentError(
            f"the URL {redact(url)} holds a secret, and URLs are printed and sent to other "
            "processes. Pass the secret in storage_options, or through the environment"
        )


def redact(url: str) -> str:
    """Return `url` with passwords and signatures hidden."""
    return _SECRET_IN_URL.sub(lambda m: (m["user"] or m["name"]) + _HIDDEN, url)


def scrub(text: str, storage_options: dict[str, Any]) -> str:
    """Return `text` with every secret of the options and of the environment hidden."""
    values = {value for _, value in _secrets(storage_options)}
    values.update(value for name, value in os.environ.items() if _SECRET_VARIABLE.search(name))
    for value in sorted(values, key=len, reverse=True):
        if len(value) >= _SHORTEST_SECRET:
            text = text.replace(value, _HIDDEN)
    return redact(text)


def _secrets(options: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in options.items():
        if isinstance(value, dict):
            yield from _secrets(value)
        elif _SECRET.search(str(name)):
            yield str(name), str(value)
        elif isinstance(value, str) and redact(value) != value:
            yield str(name), value
