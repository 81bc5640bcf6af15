"""Translate a location into a URL and storage options for delta-rs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from mdstorm_backend import errors
from mdstorm_backend.storage import Location
from mdstorm_backend.storage.credentials import Lease
from mdstorm_backend.storage.filesystems import options_in_use
from mdstorm_backend.storage.stores.store import Store, store_of, store_with, stores
from mdstorm_backend.storage.urls import storage_faults
from mdstorm_backend.tables import snapshot


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
    store, is_lent = store_of(location.url), location.credentials is not None
    if store.deltalake == "no":
        raise snapshot.unsupported(
            location.url,
            "can be read only on local disks and mounts, " + _joined(lambda of: of != "no"),
        )
    if is_lent and store.deltalake != "lent":
        raise snapshot.unsupported(
            location.url,
            "has credentials from a catalog, which deltalake uses only on "
            + _joined(lambda of: of == "lent"),
        )
    if location.credentials is not None:
        options = _of_lease(store, location, location.credentials.current())
    else:
        protocol, options = options_in_use(location.url, location.storage_options)
        store = store_with(protocol)
    with storage_faults(location.url, location.storage_options):
        try:
            return store.delta_options(location.url, options, is_lent=is_lent)
        except NotImplementedError as error:
            raise snapshot.unsupported(location.url, str(error)) from None


def _of_lease(store: Store, location: Location, lease: Lease) -> dict[str, Any]:
    """Return the options of a file system with a catalog's credentials, which take precedence."""
    secrets = {name: value for name, value in lease.options.items() if name in store.secrets}
    options = {**lease.options, **location.storage_options, **secrets}
    return {**store.options_in_environment(location.url, options), **options}


def _joined(accepts: Callable[[str], bool]) -> str:
    """Return the names of the stores for which deltalake accepts credentials of some kind."""
    *names, last = sorted(store.name for store in stores() if accepts(store.deltalake))
    return f"{', '.join(names)} and {last}"
