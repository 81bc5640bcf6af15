"""Open a Delta table: find the live files and rows of a version."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote

from mdstorm_backend.base.checks import parse_json
from mdstorm_backend.base.optional import require
from mdstorm_backend.errors import DatasetNotFoundError, InvalidArgumentError, UnsupportedTableError
from mdstorm_backend.storage import Location, options_in_use
from mdstorm_backend.tables.delta_log import read_log
from mdstorm_backend.tables.snapshot import AsOf, TableSnapshot, read_by_spark

_LOG = "_delta_log"


def is_delta(location: Location) -> bool:
    """Whether a directory is a Delta table."""
    return location.child(_LOG).describe() is not None


def open_delta(location: Location, as_of: AsOf) -> TableSnapshot:
    """Return the live files and rows of a version of a Delta table.

    Parameters
    ----------
    location : Location
        The directory of the table.
    as_of : AsOf
        The version to open.

    Raises
    ------
    MissingDependencyError
        If the library deltalake is not installed.
    DatasetNotFoundError
        If the table has no such version.
    UnsupportedTableError
        If the table needs an unsupported feature, or is on an unsupported storage.
    CorruptDatasetError
        If its log cannot be read.
    CredentialsError, StorageError
        If the storage denies access or fails.
    """
    require("deltalake")
    found = read_log(location.url, *of_delta_rs(location), as_of)
    if as_of.timestamp is not None:
        _check_not_before(location, found.version, as_of)
    return found


def _check_not_before(location: Location, version: int, as_of: AsOf) -> None:
    """Raise for a time before the oldest version, for which delta-rs opens the oldest one."""
    committed = _committed(location, version)
    if committed is not None and as_of.time < committed:
        raise DatasetNotFoundError(
            f"{location.url} has no version as old as {as_of}: the oldest version that is left, "
            f"{version}, was written at {committed.isoformat()}",
            url=location.url,
        )


def _committed(location: Location, version: int) -> datetime | None:
    """Return the time at which a version was written; None if its log does not record it."""
    try:
        lines = bytes(location.child(_LOG).read(f"{version:020}.json")).splitlines()
    except FileNotFoundError:
        return None
    notes = [note for line in lines if (note := parse_json(line).get("commitInfo"))]
    times = [note.get("inCommitTimestamp") or note.get("timestamp") for note in notes]
    if not times or times[0] is None:
        return None
    return datetime.fromtimestamp(times[0] / 1000, timezone.utc)


def check_as_of(as_of: AsOf | None, url: str) -> None:
    """Check that no version is requested, for files that are not a table.

    Raises
    ------
    InvalidArgumentError
        If `as_of` chooses a version.
    """
    if as_of:
        raise InvalidArgumentError(
            f"{as_of} chooses a version of a table, and {url} is no table of Delta or Iceberg: "
            "leave it out"
        )


#: Options of fsspec's file systems, and their names in delta-rs.
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
    "AccountName": "AZURE_STORAGE_ACCOUNT_NAME",
    "AccountKey": "AZURE_STORAGE_ACCOUNT_KEY",
    "BlobEndpoint": "AZURE_STORAGE_ENDPOINT",
    "SharedAccessSignature": "AZURE_STORAGE_SAS_TOKEN",
}


def of_delta_rs(location: Location) -> tuple[str, dict[str, str]]:
    """Return the URL and the storage options of a table for delta-rs.

    Raises
    ------
    UnsupportedTableError
        If delta-rs does not support the table's storage.
    """
    if location.filesystem is not None:
        raise UnsupportedTableError(
            f"{location.url} is a Delta table, whose log cannot be read through filesystem=: "
            "leave it out, and pass storage_options if the storage needs them",
            url=location.url,
        )
    if location.url.startswith("file:///"):
        if not location.is_in_file_tree:
            raise UnsupportedTableError(
                f"{location.url} is a Delta table on a Databricks mount that this machine does not "
                "have: read it on Databricks, or by the URL of its storage",
                url=location.url,
            )
        if "%" in location.path:
            raise UnsupportedTableError(
                f"{location.url} is a Delta table in a directory with '%' in its name, which "
                "deltalake decodes: rename the directory",
                url=location.url,
            )
        return f"file://{quote(location.path)}", {}
    scheme, options = options_in_use(location.url, location.storage_options)
    rest = location.url.partition("://")[2]
    if scheme in ("s3", "s3a"):
        return f"s3://{rest}", _renamed({**options.get("client_kwargs", {}), **options}, _S3)
    if scheme in ("abfs", "abfss", "az"):
        return location.url, _of_azure(options)
    if scheme in ("gs", "gcs"):
        return f"gs://{rest}", _of_google(options)
    raise UnsupportedTableError(
        f"{location.url} is a Delta table, which can be read only on local disks and mounts, S3, "
        f"Azure and Google Cloud Storage. {read_by_spark(location.url)}",
        url=location.url,
    )


def _of_azure(options: Mapping[str, Any]) -> dict[str, str]:
    connection = str(options.get("connection_string") or "")
    parts = dict(part.split("=", 1) for part in connection.split(";") if "=" in part)
    return _renamed({**parts, **options}, _AZURE)


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
    """Return the options that are set and known to delta-rs, by its names for them."""
    found = {
        name: "true" if options[key] is True else str(options[key])
        for key, name in names.items()
        if options.get(key) not in (None, False, "")
    }
    endpoints = ("AWS_ENDPOINT_URL", "AZURE_STORAGE_ENDPOINT")
    if any(found.get(name, "").startswith("http://") for name in endpoints):
        found["ALLOW_HTTP"] = "true"
    return found
