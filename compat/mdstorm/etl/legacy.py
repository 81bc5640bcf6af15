"""Read the pickles in Petastorm's metadata: the mirror of ``petastorm.etl.legacy``."""

from __future__ import annotations

from typing import Any

from mdstorm._petastorm_names import other_names
from mdstorm._pickles.stored_pickles import load_indexes, load_unischema
from mdstorm._selection.row_group_index import indexers_of
from mdstorm.errors import UnsafePickleError

__all__ = ["depickle_legacy_package_name_compatible", "restricted_loads"]

__getattr__ = other_names(__name__)


def restricted_loads(s: bytes) -> Any:
    """Return what a pickle in Petastorm's metadata describes, without executing anything.

    Petastorm's modules may have the names of any version of it.

    Parameters
    ----------
    s : bytes
        Value of one of the keys ``dataset-toolkit.unischema.v1`` and
        ``dataset-toolkit.rowgroups_index.v1`` of ``_common_metadata``.

    Returns
    -------
    Unischema, or dict of str to SingleFieldIndexer or FieldNotNullIndexer
        The schema, or the row group indexes by name.

    Raises
    ------
    UnsafePickleError
        If it describes anything else; also `pickle.UnpicklingError`.
    """
    try:
        return load_unischema(s)
    except UnsafePickleError as error:
        try:
            return indexers_of(load_indexes(s))
        except UnsafePickleError:
            raise error from None


def depickle_legacy_package_name_compatible(pickled_string: bytes) -> Any:
    """Do the same as `restricted_loads`."""
    return restricted_loads(pickled_string)
