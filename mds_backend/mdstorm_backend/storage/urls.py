"""URLs: their normal form, the secrets in them, and errors from the stores that they refer to.

Credentials are never pickled, printed or logged. Errors from SDKs are translated, with secrets
removed. Storage clients retry for a minute, whether a host refuses connections, has no address, or
is just slow. The first two are rarely temporary, so they are detected here, and the reader's own
settings determine how often to retry.
"""

from __future__ import annotations

import errno
import os
import re
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from mdstorm_backend import errors
from mdstorm_backend.storage.stores.store import Store, store_of, store_with, stores

#: Where Databricks mounts remote storage into the local file tree (FUSE).
FUSE_PREFIXES = ("/dbfs/", "/Volumes/", "/Workspace/")
#: A character that makes a path a pattern.
PATTERN = re.compile(r"[*?\[]")


def is_on_mount(path: str) -> bool:
    """Whether a local path is on a Databricks mount, rather than on a local disk."""
    return path.startswith(FUSE_PREFIXES)


def has_scheme(url: str) -> bool:
    """Whether `url` has a scheme or is on a Databricks mount, rather than a plain path."""
    scheme, colon, _ = url.partition(":")
    return bool(colon and scheme.isidentifier()) or is_on_mount(url)


def url_of(place: Any) -> Any:
    """Return a local path object as a URL; return anything else, such as a URL, unchanged."""
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
        raise errors.UnsupportedURLError(
            f"{url!r} is a Windows path, which is not supported. In WSL, the drive is /mnt/"
            f"{scheme.lower()}"
        )
    scheme = scheme.lower()
    if scheme not in ("file", "dbfs"):
        if not rest.strip("/"):
            raise errors.UnsupportedURLError(
                f"{url!r} is incomplete: write {scheme}://bucket/directory"
            )
        if store_with(scheme).has_buckets and not re.match("//[^/]", rest):
            raise errors.UnsupportedURLError(
                f"{url!r} has no bucket. URLs must be of the form {scheme}://bucket/path"
            )
        return f"{scheme}:{rest.rstrip('/')}"
    if rest.startswith("//~"):
        raise errors.UnsupportedURLError(
            f"{url!r} has the host '~': only paths have a home directory. Write {rest[2:]!r}, or "
            f"{scheme}://{os.path.expanduser(rest[2:])}"
        )
    if not rest.startswith("/") or (rest.startswith("//") and not rest.startswith("///")):
        what = f"the host {rest[2:].partition('/')[0]!r}" if rest.startswith("/") else "no root"
        raise errors.UnsupportedURLError(
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
    r"SECRET|TOKEN|PASSW|(ACCOUNT|STORAGE)_(ACCESS_)?KEY|CONNECTION_STRING", re.IGNORECASE
)
#: The password of ``scheme://user:password@host``, and the values of signed query strings.
_SECRET_IN_URL = re.compile(
    r"(?P<user>://[^/@:]*:)[^/@]+(?=@)"
    r"|(?P<name>[?&](sig|X-Amz-Signature|X-Amz-Security-Token|X-Goog-Signature|token)=)[^&#]+",
    re.IGNORECASE,
)
#: A token that a library has obtained, in a request header; ordinary words do not match.
_BEARER = re.compile(r"(?<=\bBearer )[\w.~+/=-]{16,}", re.IGNORECASE)
_HIDDEN = "***"
#: Shorter values may be ordinary words, which must stay readable.
_SHORTEST_SECRET = 6


def check_no_secrets(storage_options: dict[str, Any]) -> None:
    """Raise an error if options contain credentials, which must not be sent to other processes.

    Raises
    ------
    InvalidArgumentError
        If the name of an option looks like a credential's, or a value is a URL with a secret; the
        message does not contain the value.
    """
    secrets = sorted({name for name, _ in _secrets(storage_options)})
    if secrets:
        raise errors.InvalidArgumentError(
            f"storage_options contain {secrets}, which would be pickled and sent to other "
            "processes, such as Spark's workers. Leave these options out, and give those processes "
            "their own credentials through environment variables, an instance profile or the "
            "cluster configuration"
        )


def check_no_secret_in_url(url: str) -> None:
    """Raise an error if a URL, which may be logged or pickled, has a password or a signature.

    Raises
    ------
    InvalidArgumentError
        If the URL contains a secret; the message hides it.
    """
    if redact(url) != url:
        raise errors.InvalidArgumentError(
            f"the URL {redact(url)} contains a secret, but URLs are printed and sent to other "
            "processes. Pass the secret in storage_options, or through the environment"
        )


def redact(url: str) -> str:
    """Return `url` with passwords and signatures hidden."""
    return _SECRET_IN_URL.sub(lambda m: (m["user"] or m["name"]) + _HIDDEN, url)


def scrub(text: str, storage_options: dict[str, Any]) -> str:
    """Return `text` with request tokens, and secrets from options and environment, hidden."""
    values = {value for _, value in _secrets(storage_options)}
    known = _declared(lambda store: store.secrets)
    values.update(
        value
        for name, value in os.environ.items()
        if name in known or _SECRET_VARIABLE.search(name)
    )
    parts = {part for value in values for part in (value, *_parts(value))}
    for value in sorted(parts, key=len, reverse=True):
        if len(value) >= _SHORTEST_SECRET:
            text = text.replace(value, _HIDDEN)
    return redact(_BEARER.sub(_HIDDEN, text))


def _parts(value: str) -> Iterator[str]:
    """Yield the secret parts of a connection string or URL, which errors may quote alone."""
    for name, _, content in (part.partition("=") for part in value.split(";")):
        if _SECRET.search(name):
            yield content
    yield from re.findall(r"://[^/@:]*:([^/@]+)@", value)


def _secrets(options: dict[str, Any]) -> Iterator[tuple[str, str]]:
    known = _declared(lambda store: store.secrets)
    for name, value in options.items():
        if isinstance(value, dict):
            yield from _secrets(value)
        elif name in known or _SECRET.search(str(name)):
            yield str(name), str(value)
        elif isinstance(value, str) and redact(value) != value:
            yield str(name), value


def _declared(attribute: Callable[[Store], Iterable[str]]) -> set[str]:
    """Return what all stores declare, such as the names of their secrets."""
    return {value for store in stores() for value in attribute(store)}


#: Maximum number of characters from an SDK's message that our messages quote.
_LONGEST_TEXT = 300
#: Python's classes and aiohttp's, which fsspec uses for http: URLs.
_CONNECTION_ERRORS = ("ClientConnectionError", "ConnectionError", "TimeoutError")
#: Returns the message for a refusal, from the URL and the store's message.
Refusal: TypeAlias = Callable[[str, str], str]


@contextmanager
def storage_faults(
    url: str, options: dict[str, Any], refusal: Refusal | None = None
) -> Iterator[None]:
    """Translate errors that a store's client raises in the block.

    Parameters
    ----------
    url : str
        A normalised URL.
    options : dict
        The options of the file system, whose secrets are hidden.
    refusal : callable, optional
        Returns the message if access is denied; by default, about the storage's usual credentials.

    Raises
    ------
    FileNotFoundError
        If there is no such file or bucket.
    CredentialsError
        If there are no credentials, or the storage rejects them.
    StorageError
        If anything else fails.
    """
    try:
        yield
    except (errors.MDStormError, FileExistsError, IsADirectoryError, NotADirectoryError):
        raise
    except Exception as error:
        error = unreached(error) or error
        translated = _translate(error, url, options, refusal or store_of(url).refusal)
        # An SDK's message may contain the request, which must not reach a log.
        hidden = scrub(str(error), options) != str(error)
        raise translated from (None if hidden else error)


def unreached(error: BaseException) -> Exception | None:
    """Return why a server was not reached, if that is why fsspec found no file; otherwise None."""
    cause = error.__cause__
    if not isinstance(error, FileNotFoundError) or not isinstance(cause, Exception):
        return None
    kinds = {kind.__name__ for kind in type(cause).__mro__}
    return None if kinds.isdisjoint(_CONNECTION_ERRORS) else cause


def _translate(error: Exception, url: str, options: dict[str, Any], refusal: Refusal) -> Exception:
    kinds = {kind.__name__ for kind in type(error).__mro__}
    codes = (getattr(error, name, None) for name in ("status_code", "status", "code"))
    status = next((code for code in codes if isinstance(code, int)), None)
    # The first line only: some SDKs append the server's response.
    text = scrub(str(error), options).strip().partition("\n")[0].strip()[:_LONGEST_TEXT]
    text = text or type(error).__name__
    if is_expired := store_of(url).has_expired(error) or means_expiry(str(error)):
        text = f"the credentials have expired: {text}"
    # With 401, Google and others respond in the same way to wrong and to expired credentials.
    may_have_expired = (
        is_expired or status == 401 or _contains(text, lambda store: store.refusing_unclearly)
    )
    is_refused = (
        status == 403
        or not kinds.isdisjoint({"PermissionError", *_declared(lambda store: store.refusals)})
        or _contains(text, lambda store: store.refusing)
    )
    if may_have_expired or is_refused:
        return errors.CredentialsError(refusal(url, text), url=url, is_expired=may_have_expired)
    absences = {"FileNotFoundError", *_declared(lambda store: store.absences)}
    if status == 404 or not kinds.isdisjoint(absences):
        is_bare = url.endswith(text) or text.startswith(("http://", "https://"))
        return FileNotFoundError(f"{url} does not exist" if is_bare else f"{url}: {text}")
    return errors.StorageError(
        f"{url} cannot be used ({type(error).__name__}: {text}). Check the URL, the network and "
        "the storage options",
        url=url,
    )


def means_expiry(text: str) -> bool:
    """Whether a store's response means that credentials have expired."""
    return _contains(text, lambda store: store.expiring)


def _contains(text: str, attribute: Callable[[Store], Iterable[str]]) -> bool:
    """Whether a message contains one of the texts that stores declare."""
    return any(sign in text.lower() for sign in _declared(attribute))


#: Seconds to wait for a connection. A slower host is not an error here: the client has its own time
#: limits.
_PATIENCE = 5.0
_PORTS = {"http": 80, "https": 443}
_UNREACHABLE = {errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH}


def check_reachable(filesystem: Any) -> None:
    """Connect once to the host of a file system whose client would retry for a long time.

    Raises
    ------
    ConnectionError
        If the host has no address or refuses connections.
    """
    names = filesystem.protocol
    names = {names} if isinstance(names, str) else {*names}
    endpoint = ""
    for name in names:
        with suppress(Exception):  # the request itself will report the problem better
            endpoint = endpoint or store_with(name).endpoint(filesystem)
    configured = getattr(filesystem, "config_kwargs", None) or {}
    check_endpoint(endpoint, configured.get("proxies"))


def check_endpoint(endpoint: str, proxies: Mapping[str, str] | None = None) -> None:
    """Connect once to the host of a URL, unless `proxies` or the environment set a proxy for it.

    Raises
    ------
    ConnectionError
        If the host has no address or refuses connections.
    """
    from urllib.request import getproxies, proxy_bypass  # imported here: loads the HTTP modules

    url = urlsplit(endpoint)
    if not url.hostname or url.scheme in (proxies or ()):
        return
    if url.scheme in getproxies() and not proxy_bypass(url.hostname):
        return  # the proxy looks up the address
    address = (url.hostname, url.port or _PORTS.get(url.scheme, 443))
    try:
        socket.create_connection(address, timeout=_PATIENCE).close()
    except OSError as error:
        if isinstance(error, socket.gaierror) or error.errno in _UNREACHABLE:
            where = f"{url.scheme}://{url.netloc}"
            raise ConnectionError(f"{where} cannot be reached: {error.strerror}") from error
