"""`ObjectPins`: whether objects on S3 are still those of the dataset that was opened."""

from __future__ import annotations

import logging
from datetime import datetime
from multiprocessing.context import get_spawning_popen
from typing import Any

from mdstorm_backend.errors import CredentialsError, StorageError
from mdstorm_backend.storage.local_files import Version
from mdstorm_backend.storage.location import Location
from mdstorm_backend.storage.pins import changed

_INDEX = "index.json"

_logger = logging.getLogger(__name__)


class ObjectPins:
    """The versions of the objects of one opened dataset, as their downloads find them.

    An object keeps the entity tag of its first download. An object that was written after the
    opened index may belong to another dataset, or may have been copied after its index. So the
    index is asked, once for all objects that were written until then. No other request is made.
    Pickled like `Pins`.

    Parameters
    ----------
    location : Location
        The dataset.
    written : str or None
        When the opened index was written, as `Location.modified` returns it; None or "" if unknown.
    """

    def __init__(
        self, location: Location, written: str | None, tags: dict[str, str] | None = None
    ) -> None:
        self._location, self._written = location, written
        self._tags = {} if tags is None else dict(tags)
        #: The time of the opened index, and the time until which objects may have been written.
        self._opened = self._until = _time(written or "")

    def __reduce__(self) -> tuple[Any, ...]:
        is_spawning = get_spawning_popen() is not None
        return ObjectPins, (self._location, self._written, self._tags if is_spawning else None)

    def compare(self, name: str, version: Version) -> None:
        """Raise DatasetChangedError if an object is not of the dataset that was opened."""
        url = self._location.file_url(name)
        if version.tag and self._tags.setdefault(name, version.tag) != version.tag:
            raise changed(url, "it has another entity tag than at its first download")
        until, written = self._until, version.written
        if until is None or written is None or written <= until:
            return
        if self._is_index_written_again():
            raise changed(url, f"it and {_INDEX} were written since, at {written}")
        self._until = written

    def _is_index_written_again(self) -> bool:
        try:
            return _time(self._location.modified(_INDEX)) != self._opened
        except FileNotFoundError:
            return True
        except (CredentialsError, StorageError) as error:
            _logger.warning("%s cannot be compared: %s", self._location.file_url(_INDEX), error)
            return False


def _time(text: str) -> datetime | None:
    """Parse a time as `Location.modified` returns it for S3, in whole seconds."""
    try:
        return datetime.fromisoformat(text).replace(microsecond=0)
    except ValueError:  # the store does not say so
        return None
