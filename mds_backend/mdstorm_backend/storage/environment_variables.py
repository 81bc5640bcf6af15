"""Environment variables by which MosaicML Streaming's programs choose their storage.

They say what `storage_options` do not, and come before what a file system looks for by itself.
"""

from __future__ import annotations

import importlib
import os
from copy import deepcopy
from typing import Any

from mdstorm_backend.storage.s3_objects import CONNECTIONS

#: Where Google Cloud Storage speaks S3's language, which its HMAC keys are for.
_GOOGLE_ENDPOINT = "https://storage.googleapis.com"
_GOOGLE_SCHEMES = ("gs", "gcs")
_CONNECTIONS = {"max_pool_connections": CONNECTIONS}


def protocol_of(scheme: str, options: dict[str, Any]) -> str:
    """Return the scheme of the file system that opens URLs of a scheme: mostly the same.

    HMAC keys for Google Cloud Storage, ``GCS_KEY`` and ``GCS_SECRET``, are for its interface to
    clients of S3.
    """
    names = ("GCS_KEY", "GCS_SECRET")
    is_google = scheme in _GOOGLE_SCHEMES and not options and all(map(os.environ.get, names))
    return "s3" if is_google else scheme


def with_variables(url: str, scheme: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a file system, completed by the variables.

    Parameters
    ----------
    url : str
        A normalised URL in it.
    scheme : str
        The scheme of the URL.
    options : dict
        What the URL and the caller say, which counts more.
    """
    if protocol_of(scheme, options) != scheme:
        return {
            "key": os.environ["GCS_KEY"],
            "secret": os.environ["GCS_SECRET"],
            "endpoint_url": _GOOGLE_ENDPOINT,
            "client_kwargs": {"region_name": "auto"},
            "config_kwargs": {**_CONNECTIONS, **_without_checksums()},
        }
    if scheme in ("s3", "s3a"):
        # A copy: botocore changes what it gets, and other options would mean another client.
        configured = {**_CONNECTIONS, **deepcopy(options.get("config_kwargs", {}))}
        return {**_of_s3(url, options), **options, "config_kwargs": configured}
    if scheme in ("abfs", "abfss", "az"):
        return {**_of_azure(options), **options}
    return options


def _of_s3(url: str, options: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    endpoint = os.environ.get("S3_ENDPOINT_URL")
    if endpoint and "endpoint_url" not in options.get("client_kwargs", {}):
        found["endpoint_url"] = endpoint
    acl = os.environ.get("S3_CANNED_ACL")
    if acl:
        found["s3_additional_kwargs"] = {"ACL": acl}
    bucket = url.partition("://")[2].partition("/")[0]
    buckets = os.environ.get("MOSAICML_STREAMING_AWS_REQUESTER_PAYS", "").split(",")
    if bucket in (name.strip() for name in buckets):
        found["requester_pays"] = True
    return found


def _of_azure(options: dict[str, Any]) -> dict[str, Any]:
    name = os.environ.get("AZURE_ACCOUNT_NAME")
    key = os.environ.get("AZURE_ACCOUNT_ACCESS_KEY")
    if not name or options.get("account_name", name) != name or _has_credentials(options):
        return {}
    return {"account_name": name, **({"account_key": key} if key else {})}


def _has_credentials(options: dict[str, Any]) -> bool:
    names = ("account_key", "connection_string", "credential", "sas_token", "client_secret")
    return any(name in options for name in names)


def _without_checksums() -> dict[str, Any]:
    """Leave out what newer clients of S3 add to requests, and Google does not know."""
    config = importlib.import_module("botocore.config").Config
    known = "request_checksum_calculation" in config.OPTION_DEFAULTS
    return {"request_checksum_calculation": "when_required"} if known else {}
