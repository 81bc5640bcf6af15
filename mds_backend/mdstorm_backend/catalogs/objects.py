"""Accept pyiceberg tables as arguments in place of URLs."""

from __future__ import annotations

import sys
from typing import Any

from mdstorm_backend import errors
from mdstorm_backend.catalogs.vending import access_point_of, at_access_point, lease_of_iceberg

#: Prefixes of properties that hold storage credentials.
_CREDENTIALS = ("s3.access-key-id", "adls.sas-token", "gcs.oauth2.token")


def of_table(
    source: Any, storage_options: dict[str, Any] | None
) -> tuple[Any, dict[str, Any] | None]:
    """Return a pyiceberg table's metadata file, and options with its catalog's credentials.

    Other sources and their options are returned unchanged. The caller's options take precedence.

    Raises
    ------
    InvalidArgumentError
        If the table is not in a catalog yet, as in a transaction that creates it.
    """
    module = sys.modules.get("pyiceberg.table")
    if module is None or not isinstance(source, module.Table):
        return source, storage_options
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
    url = at_access_point(url, access_point_of(url, properties))
    return url, {**found, **(storage_options or {})} or None
