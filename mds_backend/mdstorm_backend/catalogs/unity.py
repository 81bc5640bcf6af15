"""Find tables in Unity Catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from mdstorm_backend import errors
from mdstorm_backend.base import did_you_mean
from mdstorm_backend.catalogs.catalog_table import CatalogTable, Format
from mdstorm_backend.catalogs.names import TableName, read_by_spark
from mdstorm_backend.catalogs.vending import IcebergCredentials, TableCredentials, at_access_point
from mdstorm_backend.catalogs.workspace import WorkspaceClient
from mdstorm_backend.storage import Location
from mdstorm_backend.storage.stores.store import store_of

_API = "/api/2.1/unity-catalog"
#: Kinds of tables that consist of files, and descriptions of the kinds that do not.
_FILES = ("MANAGED", "EXTERNAL")
_OTHERS = {
    "EXTERNAL_SHALLOW_CLONE": "a shallow clone, whose files belong to another table",
    "FOREIGN": "a foreign table, which is in another system",
    "MANAGED_SHALLOW_CLONE": "a shallow clone, whose files belong to another table",
    "MATERIALIZED_VIEW": "a materialized view",
    "METRIC_VIEW": "a metric view",
    "STREAMING_TABLE": "a streaming table",
    "VIEW": "a view",
}
_FORMATS: dict[str, Format] = {
    "DELTA": "delta",
    "DELTA_UNIFORM_ICEBERG": "delta",
    "DELTA_UNIFORM_HUDI": "delta",
    "ICEBERG": "iceberg",
    "PARQUET": "parquet",
}
#: The capability that allows engines outside of Databricks to read the table's files.
_READABLE = "HAS_DIRECT_EXTERNAL_ENGINE_READ_SUPPORT"
#: Maximum numbers of names to search for a similar one, and to list in a message.
_MOST_NAMES, _SHOWN = 1000, 20


def find_in_unity(name: TableName, storage_options: dict[str, Any]) -> CatalogTable:
    """Find a table by its name; for errors see `find_table`."""
    if name.catalog.lower() in ("hive_metastore", "spark_catalog"):
        raise errors.UnsupportedTableError(
            f"{name} is in {name.catalog}, which is not part of Unity Catalog and issues no "
            f"credentials. Pass the path of the table's files. {read_by_spark(name)}",
            url=name.url,
        )
    path = f"{_API}/tables/{quote(name.full, safe='')}"
    try:
        workspace = WorkspaceClient()
        table = workspace.get(path, {"include_manifest_capabilities": "true"})
    except errors.CredentialsError as error:
        raise errors.CredentialsError(f"{error}. {read_by_spark(name)}", url=name.url) from None
    except FileNotFoundError as error:
        raise errors.DatasetNotFoundError(
            f"there is no table {name} in Unity Catalog of {workspace.host} ({error})"
            f"{_nearest(workspace, name)}",
            url=name.url,
        ) from None
    except PermissionError as error:
        raise errors.CredentialsError(
            f"Unity Catalog of {workspace.host} denies access to {name} ({error}). You need USE "
            f"CATALOG on {name.catalog}, USE SCHEMA on {name.schema}, and SELECT on the table",
            url=name.url,
        ) from None
    kind, url = _checked(name, table)
    table_id = str(table["table_id"])
    if kind == "iceberg":
        by_iceberg = IcebergCredentials(workspace.host, name, table_id)
        location = Location.of(by_iceberg.metadata_url(), storage_options)
        return CatalogTable(name, replace(location, credentials=by_iceberg), kind, table_id)
    provider = TableCredentials(workspace.host, name, table_id)
    access_point = provider.current().access_point or table.get("access_point")
    location = Location.of(at_access_point(_of_storage(url), access_point), storage_options)
    return CatalogTable(name, replace(location, credentials=provider), kind, table_id)


def _checked(name: TableName, table: Mapping[str, Any]) -> tuple[Format, str]:
    """Return the format and the directory of a table.

    Raises
    ------
    UnsupportedTableError
        If the table does not consist of files or has policies, or its files must not be read
        directly.
    """
    stated, format_ = str(table.get("table_type")), str(table.get("data_source_format"))
    url = table.get("storage_location") or ""
    masked = [column["name"] for column in table.get("columns") or () if column.get("mask")]
    manifest = table.get("securable_kind_manifest") or {}
    what = ""
    if stated not in _FILES:
        what = f"is {_OTHERS.get(stated, stated)}"
    elif table.get("row_filter"):
        what = "has a row filter, which only Spark applies"
    elif masked:
        what = f"has a column mask on {', '.join(masked)}, which only Spark applies"
    elif "capabilities" in manifest and _READABLE not in (manifest["capabilities"] or ()):
        what = (
            f"does not have the capability {_READABLE}: it has policies or is in default storage, "
            "and only Databricks can read its files"
        )
    elif format_ not in _FORMATS:
        what = f"is stored as {format_}, but only Delta, Iceberg and Parquet are supported"
    elif not url and format_ != "ICEBERG":
        what = "has no storage_location"
    elif _FORMATS[format_] == "delta" and store_of(url).deltalake == "own":
        what = f"is a Delta table on {store_of(url).name}, where deltalake does not accept tokens"
    if what:
        raise errors.UnsupportedTableError(
            f"the table {name} {what}. {read_by_spark(name)}", url=name.url
        )
    return _FORMATS[format_], url


def _of_storage(url: str) -> str:
    """Return the URL of a table's directory for fsspec, which reads Cloudflare R2 as S3."""
    if url.startswith("r2://"):
        bucket, _, rest = url.removeprefix("r2://").partition("@")
        return f"s3://{bucket}/{rest.partition('/')[2]}"
    return url


def _nearest(workspace: WorkspaceClient, name: TableName) -> str:
    """Return a hint with names similar to the missing one, or "" if no names can be listed."""
    steps: list[tuple[str, str, dict[str, Any]]] = [
        ("tables", name.table, {"catalog_name": name.catalog, "schema_name": name.schema}),
        ("schemas", name.schema, {"catalog_name": name.catalog}),
        ("catalogs", name.catalog, {}),
    ]
    for what, wanted, where in steps:
        try:
            listed = workspace.get(f"{_API}/{what}", {**where, "max_results": _MOST_NAMES})
        except (FileNotFoundError, PermissionError, errors.StorageError):
            continue  # the schema or the catalog may also be missing
        names = [one["name"] for one in listed.get(what) or ()]
        return did_you_mean(wanted, names) or f". Its {what} are {', '.join(names[:_SHOWN])}"
    return ""
