"""Translate a location into a URL and storage options for delta-rs."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from mdstorm_backend import errors
from mdstorm_backend.storage import Location
from mdstorm_backend.storage.credentials import Lease
from mdstorm_backend.storage.filesystems import of_s3, options_in_use
from mdstorm_backend.storage.renewing import SECRETS, bucket_region
from mdstorm_backend.storage.urls import OBJECT_STORES, scheme_of, storage_faults
from mdstorm_backend.tables import snapshot

#: Options of fsspec file systems, and their names in delta-rs.
_S3 = {
    "key": "AWS_ACCESS_KEY_ID",
    "secret": "AWS_SECRET_ACCESS_KEY",
    "token": "AWS_SESSION_TOKEN",
    "endpoint_url": "AWS_ENDPOINT_URL",
    "region_name": "AWS_REGION",
    "aws_access_key_id": "AWS_ACCESS_KEY_ID",
    "aws_secret_access_key": "AWS_SECRET_ACCESS_KEY",
    "aws_session_token": "AWS_SESSION_TOKEN",
    "requester_pays": "AWS_REQUEST_PAYER",
    "anon": "AWS_SKIP_SIGNATURE",
}
_AZURE = {
    "account_name": "AZURE_STORAGE_ACCOUNT_NAME",
    "account_key": "AZURE_STORAGE_ACCOUNT_KEY",
    "sas_token": "AZURE_STORAGE_SAS_TOKEN",
    "tenant_id": "AZURE_STORAGE_TENANT_ID",
    "client_id": "AZURE_STORAGE_CLIENT_ID",
    "client_secret": "AZURE_STORAGE_CLIENT_SECRET",
    "aad_token": "AZURE_STORAGE_TOKEN",
    "anon": "AZURE_SKIP_SIGNATURE",
    "AccountName": "AZURE_STORAGE_ACCOUNT_NAME",
    "AccountKey": "AZURE_STORAGE_ACCOUNT_KEY",
    "BlobEndpoint": "AZURE_STORAGE_ENDPOINT",
    "SharedAccessSignature": "AZURE_STORAGE_SAS_TOKEN",
}


_AZURE_SECRETS = {
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_SAS_TOKEN",
    "AZURE_STORAGE_CLIENT_SECRET",
    "AZURE_STORAGE_TOKEN",
}


#: Environment variables that delta-rs prefers to a SAS token in its options.
_PREFERRED = (
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_ACCESS_KEY",
    "AZURE_STORAGE_MASTER_KEY",
    "AZURE_STORAGE_TOKEN",
)


#: Option that makes delta-rs identify a bucket by the host alone, not by a path.
_BY_HOST = {"AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true"}


def of_delta_rs(location: Location) -> tuple[str, dict[str, str]]:
    """Return a table's URL and storage options for delta-rs.

    Raises
    ------
    UnsupportedTableError
        If delta-rs does not support the table's storage.
    """
    if location.filesystem is not None:
        raise errors.UnsupportedTableError(
            f"{location.url} is a Delta table, whose log cannot be read through filesystem=: "
            "leave it out, and pass storage_options if the storage needs them",
            url=location.url,
        )
    if location.url.startswith("file:///"):
        if not location.is_in_file_tree:
            raise errors.UnsupportedTableError(
                f"{location.url} is a Delta table on a Databricks mount that this machine does not "
                "have: read it on Databricks, or by the URL of its storage",
                url=location.url,
            )
        if "%" in location.path:
            raise errors.UnsupportedTableError(
                f"{location.url} is a Delta table in a directory whose name contains '%', which "
                "deltalake decodes: rename the directory",
                url=location.url,
            )
        return f"file://{quote(location.path)}", {}
    rest = location.url.partition("://")[2]
    if location.credentials is not None:
        return _of_lease(location, location.credentials.current())
    scheme, options = options_in_use(location.url, location.storage_options)
    if scheme in ("s3", "s3a"):
        found = {**options.get("client_kwargs", {}), **options}
        with storage_faults(location.url, location.storage_options):
            named = _renamed({**_endpoint(), **_of_profile(found), **found}, _S3)
        return _through_access_point(rest, named)
    if scheme in ("abfs", "abfss", "az"):
        connection = str(options.get("connection_string") or "")
        parts = dict(part.split("=", 1) for part in connection.split(";") if "=" in part)
        return location.url, _of_azure({**parts, **options})
    if scheme in ("gs", "gcs"):
        return f"gs://{rest}", _of_google(options)
    raise errors.UnsupportedTableError(
        f"{location.url} is a Delta table, which can be read only on local disks and mounts, S3, "
        f"Azure and Google Cloud Storage. {snapshot.read_by_spark(location.url)}",
        url=location.url,
    )


def _of_lease(location: Location, lease: Lease) -> tuple[str, dict[str, str]]:
    """Return the URL and options to read with a catalog's credentials, not the environment's."""
    store = OBJECT_STORES.get(scheme_of(location.url))
    rest = location.url.partition("://")[2]
    secrets = {name: value for name, value in lease.options.items() if name in SECRETS}
    options = {**lease.options, **location.storage_options, **secrets}
    if store == "s3":
        place = {**_endpoint(), **of_s3(location.url, options), **options.get("client_kwargs", {})}
        found = _renamed({**place, **options}, _S3)
        is_arn = rest.startswith("arn:")
        if not is_arn and not {"AWS_REGION", "AWS_ENDPOINT_URL"} & found.keys():
            found |= (
                {"AWS_REGION": region} if (region := bucket_region(rest.partition("/")[0])) else {}
            )
        return _through_access_point(rest, found)
    if store == "azure":
        if preferred := [name for name in _PREFERRED if os.environ.get(name)]:
            raise errors.CredentialsError(
                f"deltalake would read the table {location.url} with {preferred[0]} from the "
                "environment instead of its catalog's credentials: unset this variable",
                url=location.url,
            )
        return location.url, _of_azure(options)
    raise errors.UnsupportedTableError(
        f"{location.url} is a Delta table with credentials from a catalog, which deltalake uses on "
        f"S3 and Azure only. {snapshot.read_by_spark(location.url)}",
        url=location.url,
    )


#: The ARN of an access point, followed by a path in it.
_ACCESS_POINT = re.compile(
    r"arn:(?P<partition>aws[a-z-]*):s3:(?P<region>[a-z0-9-]+):(?P<account>\d+)"
    r":accesspoint[:/](?P<name>[a-z0-9-]+)(?P<path>/.*|)"
)


def _through_access_point(rest: str, options: dict[str, str]) -> tuple[str, dict[str, str]]:
    """Return the URL and options for a path on S3, whose bucket may be an access point.

    An access point is a host. delta-rs recognises neither its ARN nor its alias.
    """
    if not rest.startswith("arn:"):
        is_alias = rest.partition("/")[0].endswith("-s3alias")
        needs_host = is_alias and "AWS_ENDPOINT_URL" not in options
        return f"s3://{rest}", options | (_BY_HOST if needs_host else {})
    found = _ACCESS_POINT.fullmatch(rest)
    if found is None:
        service = rest.split(":")[2] if rest.count(":") > 1 else rest
        raise errors.UnsupportedTableError(
            f"s3://{rest} is a Delta table that is read through {service}, which "
            f"deltalake does not support. {snapshot.read_by_spark(f's3://{rest}')}",
            url=f"s3://{rest}",
        )
    suffix = "amazonaws.com.cn" if found["partition"] == "aws-cn" else "amazonaws.com"
    usual = f"https://s3-accesspoint.{found['region']}.{suffix}"
    scheme, _, host = options.get("AWS_ENDPOINT_URL", usual).partition("://")
    endpoint = f"{scheme}://{found['name']}-{found['account']}.{host}"
    place = {"AWS_ENDPOINT_URL": endpoint, "AWS_REGION": found["region"], **_BY_HOST}
    return f"s3://{found['name']}{found['path']}", options | place


def _endpoint() -> dict[str, str]:
    """Return the endpoint in the environment as an option, for which `_renamed` can allow HTTP."""
    names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
    found = next((value for name in names if (value := os.environ.get(name))), None)
    return {} if found is None else {"endpoint_url": found}


def _of_profile(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the region and keys that the S3 file system finds by itself, such as in a profile.

    delta-rs supports environment variables and a machine's role, but neither profiles nor a
    ``credential_process``.
    """
    from botocore.exceptions import NoCredentialsError
    from botocore.session import Session

    session = Session(profile=options.get("profile"))
    found = {"region_name": session.get_config_variable("region")}
    given = ("key", "aws_access_key_id", "anon")
    if any(map(options.get, given)) or os.environ.get("AWS_SKIP_SIGNATURE"):
        return found
    credentials = session.get_credentials()
    if credentials is None:
        raise NoCredentialsError
    keys = credentials.get_frozen_credentials()
    return {**found, "key": keys.access_key, "secret": keys.secret_key, "token": keys.token}


def _of_azure(options: Mapping[str, Any]) -> dict[str, str]:
    """Return delta-rs's options for Azure; as in adlfs, credentials override ``anon``."""
    found = _renamed(options, _AZURE)
    if found.keys() & _AZURE_SECRETS:
        found.pop("AZURE_SKIP_SIGNATURE", None)
    return found


def _of_google(options: Mapping[str, Any]) -> dict[str, str]:
    token = options.get("token")
    if token == "anon":
        return {"GOOGLE_SKIP_SIGNATURE": "true"}
    if isinstance(token, Mapping):
        return {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(dict(token))}
    if isinstance(token, str) and token.endswith(".json"):
        return {"GOOGLE_SERVICE_ACCOUNT": token}
    return {}


def _renamed(options: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, str]:
    """Return the options that are set and known to delta-rs, under delta-rs's names."""
    found = {
        name: "true" if options[key] is True else str(options[key])
        for key, name in names.items()
        if options.get(key) not in (None, False, "")
    }
    endpoints = ("AWS_ENDPOINT_URL", "AZURE_STORAGE_ENDPOINT")
    if any(found.get(name, "").startswith("http://") for name in endpoints):
        found["ALLOW_HTTP"] = "true"
    return found
