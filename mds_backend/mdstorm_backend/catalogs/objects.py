"""Accept tables of pyiceberg and deltalake as arguments in place of URLs."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from mdstorm_backend import errors
from mdstorm_backend.catalogs.vending import access_point_of, at_access_point, lease_of_iceberg
from mdstorm_backend.storage.stores.store import store_of

#: Prefixes of properties that hold storage credentials.
_CREDENTIALS = ("s3.access-key-id", "adls.sas-token", "gcs.oauth2.token")


class GivenTable(NamedTuple):
    """What a user passed, with a table object replaced by its URL.

    Attributes
    ----------
    source : object
        The URL of the table, or what was passed if that is no table object.
    storage_options : dict or None
        Options for the fsspec file system, with the object's; the caller's take precedence.
    version : int or None
        The version of the object, if its URL does not determine it.
    """

    source: Any
    storage_options: dict[str, Any] | None
    version: int | None = None


def given_table(source: Any, storage_options: dict[str, Any] | None) -> GivenTable:
    """Return where the table is that a pyiceberg or deltalake object stands for.

    For a pyiceberg table, this is its metadata file, with the credentials of its catalog. Other
    sources and their options are returned unchanged.

    Raises
    ------
    InvalidArgumentError
        If the table is not in a catalog yet, as in a transaction that creates it.
    """
    iceberg, delta = sys.modules.get("pyiceberg.table"), sys.modules.get("deltalake")
    if iceberg is not None and isinstance(source, iceberg.Table):
        url, own = _of_iceberg(source)
        return GivenTable(url, {**own, **(storage_options or {})} or None)
    if delta is not None and isinstance(source, delta.DeltaTable):
        url = source.table_uri.rstrip("/")
        own = store_of(url).options_of_delta(source._storage_options or {})
        return GivenTable(url, {**own, **(storage_options or {})} or None, source.version())
    return GivenTable(source, storage_options)


def is_table(source: Any) -> bool:
    """Whether this is a table of pyiceberg or deltalake."""
    iceberg, delta = sys.modules.get("pyiceberg.table"), sys.modules.get("deltalake")
    return (iceberg is not None and isinstance(source, iceberg.Table)) or (
        delta is not None and isinstance(source, delta.DeltaTable)
    )


def _of_iceberg(source: Any) -> tuple[str, dict[str, Any]]:
    """Return the metadata file of a pyiceberg table, and options with its credentials."""
    if not source.metadata_location:
        raise errors.InvalidArgumentError(
            f"the table {'.'.join(source.name())} has no metadata file yet: commit the transaction "
            "that creates it, and load the table"
        )
    properties = {name: str(value) for name, value in source.io.properties.items()}
    found: dict[str, Any] = {}
    if any(name.startswith(_CREDENTIALS) for name in properties):
        found.update(lease_of_iceberg(properties, f"the table {'.'.join(source.name())}").options)
    elif endpoint := properties.get("s3.endpoint"):
        found["endpoint_url"] = endpoint
    url = source.metadata_location
    return at_access_point(url, access_point_of(url, properties)), found
