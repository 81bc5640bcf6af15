"""Translate errors of storage SDKs into errors of ours, with secrets removed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mdstorm_backend.errors import CredentialsError, MDStormError, StorageError
from mdstorm_backend.storage.filesystems import scheme_of
from mdstorm_backend.storage.secrets import scrub


@dataclass(frozen=True)
class _Lookup:
    """Where a storage looks for credentials, and what to set."""

    name: str
    variables: tuple[str, ...]
    elsewhere: str


_AZURE = _Lookup(
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
)
_GOOGLE = _Lookup(
    "Google Cloud Storage",
    ("GOOGLE_APPLICATION_CREDENTIALS", "GCS_KEY", "GCS_SECRET"),
    "`gcloud auth application-default login`, the service account of this machine",
)
_S3 = _Lookup(
    "S3",
    ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"),
    "~/.aws, the role of this machine",
)
_DATABRICKS = _Lookup(
    "the Databricks workspace",
    ("DATABRICKS_HOST", "DATABRICKS_TOKEN", "DATABRICKS_CONFIG_PROFILE"),
    "~/.databrickscfg",
)
_LOOKUPS = {
    "s3": _S3,
    "s3a": _S3,
    "gs": _GOOGLE,
    "gcs": _GOOGLE,
    "abfs": _AZURE,
    "abfss": _AZURE,
    "az": _AZURE,
    "file": _DATABRICKS,  # a missing mount: other local errors pass unchanged
}

#: Names of exceptions, of any SDK, that mean missing or insufficient credentials.
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
#: Messages that mean the same, of exceptions without a class of their own.
_REFUSING_TEXTS = (
    "cannot configure default credentials",
    "default auth:",
    "forbidden: ",
    "more than one authorization method",
    "must provide either a connection_string or account_name with credentials",
    "public access is not permitted",
)
#: Characters of an SDK's message that ours repeat.
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
        If the storage finds no credentials, or rejects them.
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
    text = _first_line(scrub(str(error), options)) or type(error).__name__
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


def _first_line(text: str) -> str:
    """Return an SDK's message without the server's response, which some append."""
    return text.strip().partition("\n")[0].strip()[:_LONGEST_TEXT]


def _refusal(url: str, text: str) -> str:
    scheme = scheme_of(url)
    lookup = _LOOKUPS.get(scheme)
    if lookup is None:
        return (
            f"{url}: the storage behind {scheme}: needs other credentials ({text}). Pass them as "
            "storage_options=…, or set them where its fsspec file system looks for them"
        )
    found = [name for name in lookup.variables if os.environ.get(name)]
    path = url.removeprefix("file://")
    where = f"{url}: {lookup.name} ({scheme}:)"
    if lookup is _DATABRICKS:
        mount = "/" + path.split("/")[1]
        where = f"dbfs:{path.removeprefix('/dbfs')}: {mount} is not mounted here, and {lookup.name}"
    return (
        f"{where} gives no access ({text}). Credentials were looked for in storage_options, "
        f"in the environment ({', '.join(lookup.variables)}; set: {', '.join(found) or 'none'}) "
        f"and in {lookup.elsewhere}. Set {_what_to_set(lookup)}, with rights for this path; "
        "distributed workers (Spark executors, training processes on other machines) need them too"
    )


def _what_to_set(lookup: _Lookup) -> str:
    if lookup is _AZURE:
        return f"{lookup.variables[1]} and {lookup.variables[2]}, or {lookup.variables[0]}"
    if lookup is _GOOGLE:
        return f"{lookup.variables[0]}, or {lookup.variables[1]} and {lookup.variables[2]}"
    if lookup is _DATABRICKS:
        return "DATABRICKS_HOST and DATABRICKS_TOKEN, and nothing else or DATABRICKS_AUTH_TYPE=pat"
    return " and ".join(lookup.variables[:2])
