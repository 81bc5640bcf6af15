"""Open file systems whose credentials are renewed while they are in use.

The S3, Azure and Google Cloud Storage clients ask an object for credentials when they sign a
request. Here, these objects ask a `CredentialProvider`. Credentials in the environment are ignored.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import closing
from functools import lru_cache
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from mdstorm_backend.errors import UnsupportedURLError
from mdstorm_backend.storage import filesystems, urls
from mdstorm_backend.storage.credentials import CredentialProvider, Lease
from mdstorm_backend.storage.s3_objects import CONNECTIONS

_logger = logging.getLogger(__name__)

#: Options of a lease that are credentials; its other options describe how to reach the storage.
SECRETS = ("key", "secret", "token", "sas_token", "aad_token")
#: File systems by process, store, provider and options.
opened_filesystems: dict[tuple[int, str, CredentialProvider, str], Any] = {}


def open_renewing(
    url: str, options: dict[str, Any], provider: CredentialProvider
) -> tuple[Any, str]:
    """Return a file system for a normalised object store URL, and the path within it.

    Parameters
    ----------
    url : str
        A URL under the prefix that the credentials are for.
    options : dict
        Further options of the fsspec file system, such as an endpoint.
    provider : CredentialProvider
        Obtains the credentials, first here rather than in the file system's event loop.

    Raises
    ------
    UnsupportedURLError
        If the storage does not have such credentials.
    """
    from fsspec.utils import tokenize

    lease, scheme = provider.current(), urls.scheme_of(url)
    store = urls.OBJECT_STORES.get(scheme, "")
    if store not in _OPENERS:
        raise UnsupportedURLError(
            f"{url} is not on S3, Azure or Google Cloud Storage, so {provider} cannot open it: "
            "read the table with Spark"
        )
    kind = filesystems.class_of(url, scheme)
    how = {name: value for name, value in lease.options.items() if name not in SECRETS}
    by_variables = filesystems.of_s3(url, options) if store == "s3" else {}
    options = {**filesystems.options_in_url(kind, url), **by_variables, **how, **options}
    place = (os.getpid(), store, provider, tokenize(options))
    fs = opened_filesystems.get(place)
    if fs is None:
        fs = opened_filesystems[place] = _OPENERS[store](kind, options, provider, lease)
        urls.check_reachable(fs)
    return fs, fs._strip_protocol(url)


def _open_s3(kind: Any, options: dict[str, Any], provider: CredentialProvider, lease: Lease) -> Any:
    from aiobotocore.credentials import AioCredentials
    from aiobotocore.session import AioSession
    from botocore.credentials import ReadOnlyCredentials

    class Renewed(AioCredentials):  # type: ignore[misc]
        async def get_frozen_credentials(self) -> Any:
            found = (await asyncio.to_thread(provider.current)).options
            return ReadOnlyCredentials(found["key"], found["secret"], found["token"])

    class Renewing:
        async def load_credentials(self) -> Any:
            return Renewed("", "")

    session = AioSession()
    session.register_component("credential_provider", Renewing())
    configured = {"max_pool_connections": CONNECTIONS, **options.get("config_kwargs", {})}
    nothing = {"key": None, "secret": None, "token": None, "anon": False}
    given = {**options, **nothing, "config_kwargs": configured, "session": session}
    return kind(**given, skip_instance_cache=True)


def _open_azure(
    kind: Any, options: dict[str, Any], provider: CredentialProvider, lease: Lease
) -> Any:
    from azure.core.credentials import AccessToken, AzureSasCredential

    class Signature(AzureSasCredential):
        @property
        def signature(self) -> str:
            return str(provider.current().options["sas_token"])

    class Token:
        async def get_token(self, *_: str, **__: Any) -> AccessToken:
            found = await asyncio.to_thread(provider.current)
            return AccessToken(found.options["aad_token"], int(min(found.expires, 1 << 40)))

        async def close(self) -> None:
            """Do nothing: there is no connection."""

        async def __aenter__(self) -> Token:
            return self

        async def __aexit__(self, *_: object) -> None:
            """Do nothing."""

    credential = Signature("renewed") if "sas_token" in lease.options else Token()
    fs = kind(**options, credential=credential, anon=False, skip_instance_cache=True)
    if fs.connection_string is not None:  # taken from the environment
        fs.connection_string = None
        fs.do_connect()
    return fs


def _open_google(
    kind: Any, options: dict[str, Any], provider: CredentialProvider, lease: Lease
) -> Any:
    from google.oauth2.credentials import Credentials

    class Renewed(Credentials):
        def apply(self, headers: dict[str, str], token: str | None = None) -> None:
            """Add the token to the headers of a request."""
            given: Any = super().apply
            given(headers, token=str(provider.current().options["token"]))

    begin: Any = Renewed
    return kind(**options, token=begin("renewed"), skip_instance_cache=True)


_OPENERS: dict[str, Callable[[Any, dict[str, Any], CredentialProvider, Lease], Any]] = {
    "s3": _open_s3,
    "azure": _open_azure,
    "gcs": _open_google,
}


#: The endpoint that returns the region of any S3 bucket, even without access to the bucket.
REGIONS_ENDPOINT = "https://s3.amazonaws.com"
#: Seconds to wait for a response from `REGIONS_ENDPOINT`.
_PATIENCE = 10.0


@lru_cache
def bucket_region(bucket: str) -> str | None:
    """Return the region of an S3 bucket; None if unknown."""
    host = urlsplit(REGIONS_ENDPOINT)
    connect = HTTPSConnection if host.scheme == "https" else HTTPConnection
    try:
        with closing(connect(host.netloc, timeout=_PATIENCE)) as connection:
            connection.request("HEAD", f"/{bucket}")
            return connection.getresponse().getheader("x-amz-bucket-region")
    except (OSError, HTTPException) as error:
        _logger.warning("the region of the bucket %s is not known (%s)", bucket, error)
        return None
