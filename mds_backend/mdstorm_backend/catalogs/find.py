"""Find a named table in its catalog."""

from __future__ import annotations

from typing import Any

from mdstorm_backend import errors
from mdstorm_backend.catalogs.catalog_table import CatalogTable
from mdstorm_backend.catalogs.names import check_parts, table_name
from mdstorm_backend.catalogs.unity import find_in_unity


def find_table(
    text: Any, storage_options: dict[str, Any] | None = None, filesystem: Any = None
) -> CatalogTable | None:
    """Return the table named `text`, or None if `text` is not a table name.

    Parameters
    ----------
    text : object
        A name, a path, a URL or something else.
    storage_options : dict, optional
        Options for the fsspec file system, such as an endpoint. Credentials come from the catalog.
    filesystem : object, optional
        Must be None for a name.

    Raises
    ------
    MissingDependencyError
        If databricks-sdk is not installed.
    DatasetNotFoundError
        If the catalog has no such table, or the string is a missing path like ``schema.table``.
    UnsupportedTableError
        If the table has an unsupported format or policies, or is a view or some other unsupported
        kind of table.
    CredentialsError
        If the workspace or the catalog denies access.
    StorageError
        If the catalog fails.
    """
    name = table_name(text)
    if name is None:
        if filesystem is None:
            check_parts(text)
        return None
    if filesystem is not None:
        raise errors.InvalidArgumentError(
            f"{text!r} is a table name: omit filesystem=, because a table is read with "
            "credentials from its catalog"
        )
    return find_in_unity(name, dict(storage_options or {}))
