"""The errors for Delta tables that cannot be read."""

from __future__ import annotations

import re

from mdstorm_backend.errors import (
    CorruptDatasetError,
    CredentialsError,
    DatasetNotFoundError,
    StorageError,
    UnsupportedTableError,
)
from mdstorm_backend.tables.read_by_spark import read_by_spark

#: What storages answer to requests without the right credentials.
_DENIALS = ("401", "403", "redential", "Forbidden", "Denied", "Unauth")
#: What delta-rs says of tables that need what it does not know.
_REFUSALS = ("not supported", "Unknown feature", "catalog-managed", "Unsupported")
#: What colours text in a terminal.
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def plain_text(error: Exception) -> str:
    """Return what delta-rs says in one line, without colours."""
    return " ".join(_COLOURS.sub("", str(error)).split())


def unsupported(url: str, what: str) -> UnsupportedTableError:
    """Return the error for a table that is, has or needs what is not known here."""
    return UnsupportedTableError(
        f"{url} is a Delta table that {what}. {read_by_spark(url)}", url=url
    )


def no_version(url: str, version: int, newest: int, error: Exception) -> DatasetNotFoundError:
    """Return the error for a version that is not there, or no longer."""
    what = f"the newest one is {newest}"
    if version <= newest:
        what = f"its log no longer holds that one ({plain_text(error)}); {what}"
    return DatasetNotFoundError(f"{url} has no version {version}: {what}", url=url)


def not_opened(url: str, error: Exception) -> UnsupportedTableError | CorruptDatasetError:
    """Return the error for a log that delta-rs does not read."""
    said = plain_text(error)
    if any(text in said for text in _REFUSALS):
        return unsupported(url, f"needs what is not known here ({said})")
    return CorruptDatasetError(
        f"{url} is a Delta table whose log cannot be read ({said}). Check that _delta_log is "
        "complete, and that this machine may read it",
        url=url,
    )


def out_of_reach(url: str, error: OSError) -> StorageError | CredentialsError:
    """Return the error for a storage that failed: delta-rs gives its own nothing but a text."""
    text = plain_text(error)
    if any(sign in text for sign in _DENIALS):
        return CredentialsError(
            f"the log of the Delta table {url} cannot be read with the credentials in use "
            f"({text}). deltalake takes those of storage_options and of the environment",
            url=url,
        )
    return StorageError(
        f"the log of the Delta table {url} cannot be read ({text}). Check the network and the "
        "storage options",
        url=url,
    )
