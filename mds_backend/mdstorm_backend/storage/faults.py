"""Translate errors of storage SDKs, with secrets removed, and detect unreachable hosts early.

Storage clients retry for a minute, whether a host refuses connections, has no address, or is only
slow. The first two rarely pass, so they are detected here, and the reader's own settings decide how
often to retry.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from mdstorm_backend.errors import CredentialsError, MDStormError, StorageError
from mdstorm_backend.storage.urls import OBJECT_STORES, scheme_of, scrub


@dataclass(frozen=True)
class _Lookup:
    """Where a storage looks for credentials and which ones to set, for messages."""

    name: str
    variables: tuple[str, ...]
    elsewhere: str
    to_set: str


#: By the name of an object store in `OBJECT_STORES`.
_LOOKUPS = {
    "azure": _Lookup(
        "Azure storage",
        (
            "AZURE_STORAGE_CONNECTION_STRING",
            "AZURE_STORAGE_ACCOUNT_NAME",
            "AZURE_STORAGE_ACCOUNT_KEY",
            "AZURE_STORAGE_SAS_TOKEN",
            "AZURE_STORAGE_TENANT_ID",
            "AZURE_STORAGE_CLIENT_ID",
            "AZURE_STORAGE_CLIENT_SECRET",
            "AZURE_ACCOUNT_NAME",
            "AZURE_ACCOUNT_ACCESS_KEY",
        ),
        "the identity of this machine or of `az login`",
        "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, or "
        "AZURE_STORAGE_CONNECTION_STRING",
    ),
    "gcs": _Lookup(
        "Google Cloud Storage",
        ("GOOGLE_APPLICATION_CREDENTIALS", "GCS_KEY", "GCS_SECRET"),
        "`gcloud auth application-default login`, the service account of this machine",
        "GOOGLE_APPLICATION_CREDENTIALS, or GCS_KEY and GCS_SECRET",
    ),
    "s3": _Lookup(
        "S3",
        ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"),
        "~/.aws, the role of this machine",
        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    ),
    # For a missing mount of Databricks; other local errors are not translated.
    "file": _Lookup(
        "the Databricks workspace",
        ("DATABRICKS_HOST", "DATABRICKS_TOKEN", "DATABRICKS_CONFIG_PROFILE"),
        "~/.databrickscfg",
        "DATABRICKS_HOST and DATABRICKS_TOKEN, and nothing else or DATABRICKS_AUTH_TYPE=pat",
    ),
}

#: Names of exceptions of any SDK that mean missing or insufficient credentials.
_REFUSALS = {
    "ClientAuthenticationError",
    "CredentialRetrievalError",
    "CredentialUnavailableError",
    "DefaultCredentialsError",
    "NoCredentialsError",
    "PartialCredentialsError",
    "PermissionDenied",
    "PermissionError",
    "ProfileNotFound",
    "RefreshError",
    "Unauthenticated",
}
#: Messages that mean the same, for SDKs without an exception class for it.
_REFUSING_TEXTS = (
    "cannot configure default credentials",
    "default auth:",
    "forbidden: ",
    "more than one authorization method",
    "must provide either a connection_string or account_name with credentials",
    "public access is not permitted",
)
#: Largest number of characters of an SDK's message that our messages repeat.
_LONGEST_TEXT = 300
_ABSENCES = {"FileNotFoundError", "NoSuchBucket", "NotFound", "ResourceNotFoundError"}


@contextmanager
def storage_faults(url: str, options: dict[str, Any]) -> Iterator[None]:
    """Translate errors that a storage raises in the block, for a normalised `url`.

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
    except (MDStormError, FileExistsError, IsADirectoryError, NotADirectoryError):
        raise
    except Exception as error:
        translated = _translate(error, url, options)
        # An SDK's message may contain the request, which must not reach a log.
        hidden = scrub(str(error), options) != str(error)
        raise translated from (None if hidden else error)


def _translate(error: Exception, url: str, options: dict[str, Any]) -> Exception:
    kinds = {kind.__name__ for kind in type(error).__mro__}
    status = next(
        (
            value
            for name in ("status_code", "status", "code")
            if isinstance(value := getattr(error, name, None), int)
        ),
        None,
    )
    # The first line only: some SDKs append the server's response.
    text = scrub(str(error), options).strip().partition("\n")[0].strip()[:_LONGEST_TEXT]
    text = text or type(error).__name__
    if kinds & _REFUSALS or status in (401, 403) or any(t in text.lower() for t in _REFUSING_TEXTS):
        return CredentialsError(_refusal(url, text), url=url)
    if kinds & _ABSENCES or status == 404:
        says_nothing = url.endswith(text) or text.startswith(("http://", "https://"))
        return FileNotFoundError(f"{url} does not exist" if says_nothing else f"{url}: {text}")
    return StorageError(
        f"{url} cannot be used ({type(error).__name__}: {text}). Check the URL, the network and "
        "the storage options",
        url=url,
    )


def _refusal(url: str, text: str) -> str:
    scheme = scheme_of(url)
    lookup = _LOOKUPS.get(OBJECT_STORES.get(scheme, scheme))
    if lookup is None:
        return (
            f"{url}: the storage behind {scheme}: needs other credentials ({text}). Pass them as "
            "storage_options=…, or set them where its fsspec file system looks for them"
        )
    found = [name for name in lookup.variables if os.environ.get(name)]
    where = f"{url}: {lookup.name} ({scheme}:)"
    if scheme == "file":
        path = url.removeprefix("file://")
        mount = "/" + path.split("/")[1]
        where = f"dbfs:{path.removeprefix('/dbfs')}: {mount} is not mounted here, and {lookup.name}"
    return (
        f"{where} gives no access ({text}). Credentials were looked for in storage_options, "
        f"in the environment ({', '.join(lookup.variables)}; set: {', '.join(found) or 'none'}) "
        f"and in {lookup.elsewhere}. Set {lookup.to_set}, with rights for this path; "
        "distributed workers (Spark executors, training processes on other machines) need them too"
    )


#: Seconds after which a host counts as slow, which the client's own time limits handle.
_PATIENCE = 5.0
_PORTS = {"http": 80, "https": 443}
_UNREACHABLE = {errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH}

#: Protocol of a file system → its endpoint, as its client resolved it from all settings.
_ENDPOINTS: dict[str, Callable[[Any], Any]] = {
    "s3": lambda fs: fs.s3.meta.endpoint_url,
    "gs": lambda fs: fs._location,
    "abfs": lambda fs: fs.service_client.url,
}


def check_reachable(filesystem: Any) -> None:
    """Connect once to the host of a file system whose client would retry for long.

    Raises
    ------
    ConnectionError
        If the host has no address or refuses connections.
    """
    names = filesystem.protocol
    names = {names} if isinstance(names, str) else {*names}
    endpoint = ""
    for name in names & _ENDPOINTS.keys():
        with suppress(Exception):  # the request itself will report the problem better
            endpoint = str(_ENDPOINTS[name](filesystem))
    configured = getattr(filesystem, "config_kwargs", None) or {}
    check_endpoint(endpoint, configured.get("proxies"))


def check_endpoint(endpoint: str, proxies: Mapping[str, str] | None = None) -> None:
    """Connect once to the host of a URL, unless `proxies` or the environment set a proxy for it.

    Raises
    ------
    ConnectionError
        If the host has no address or refuses connections.
    """
    from urllib.request import getproxies, proxy_bypass  # imports the HTTP modules

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
