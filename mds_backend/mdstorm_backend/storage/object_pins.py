"""`ObjectPins`: whether the objects in a store are still those of the dataset that was opened."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from itertools import chain, islice
from typing import Any
from weakref import WeakSet

from mdstorm_backend.base import map_files
from mdstorm_backend.errors import CredentialsError, DatasetChangedError, StorageError
from mdstorm_backend.storage.local_files import Version, parsed_time
from mdstorm_backend.storage.location import Location
from mdstorm_backend.storage.pins import changed

_INDEX = "index.json"
#: An entity tag at the end of what `Location.modified` returns.
_TAG = re.compile(r'(?:W/)?"([^"]*)"$')

#: Stores state times in whole seconds.
_PRECISION = timedelta(seconds=1)

_logger = logging.getLogger(__name__)


class ObjectPins:
    """The versions of the objects of one opened dataset. Safe to share between threads.

    An object keeps the entity tag that was listed, or else that of its first download. An object
    that was written after the opened index may belong to another dataset, or may have been copied
    after its index. So the index is requested, once for all objects that were written until then.
    If the same index was written again, all objects that were downloaded so far are compared,
    otherwise one.

    Parameters
    ----------
    location : Location
        The dataset.
    written : str or None
        The version of the opened index, as `Location.modified` returns it; None or "" if unknown.
    tags : mapping of str to str, optional
        The entity tags of objects that were listed.
    copies : callable, optional
        Returns the names and entity tags of the objects that all processes have downloaded so far;
        picklable.
    """

    def __init__(
        self,
        location: Location,
        written: str | None,
        tags: Mapping[str, str] | None = None,
        copies: Callable[[], Iterable[tuple[str, str]]] = tuple,
    ) -> None:
        self._location, self._index, self._copies = location, written or "", copies
        self._tags = {name: _bare(tag) for name, tag in (tags or {}).items() if tag}
        #: Objects that were written until this time are of the opened dataset; None if unknown.
        self._until = _time(self._index)
        self.renew_lock()
        _instances.add(self)

    def renew_lock(self) -> None:
        """Replace the lock: after a fork, a thread that does not exist here may hold it."""
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return ObjectPins, (self._location, self._index, self._tags, self._copies)

    def get(self, name: str) -> str:
        """Return the entity tag of an object that was listed or downloaded; "" if unknown."""
        return self._tags.get(name, "")

    def compare(self, name: str, version: Version) -> None:
        """Raise DatasetChangedError if an object is not of the dataset that was opened."""
        tag = _bare(version.tag or "")
        if tag and self._tags.setdefault(name, tag) != tag:
            raise changed(self._location.file_url(name), "it has another entity tag than before")
        if self._may_be_newer(version):
            with self._lock:
                if self._may_be_newer(version):
                    try:
                        self._compare_index(name, version)
                    except (CredentialsError, StorageError) as error:
                        url = self._location.file_url(name)
                        _logger.warning("%s cannot be compared with its dataset: %s", url, error)
                    sent = version.sent
                    self._until = version.written if sent is None else sent - _PRECISION

    def _may_be_newer(self, version: Version) -> bool:
        until, written = self._until, version.written
        return until is not None and written is not None and written > until

    def _compare_index(self, name: str, version: Version) -> None:
        try:
            current = self._location.modified(_INDEX)
        except FileNotFoundError:
            current = ""
        url = self._location.file_url(name)
        others = (one for one in chain(list(self._tags.items()), self._copies()) if one[0] != name)
        if current == self._index:
            if any(map(self._is_replaced, islice(others, 1))):
                raise _replaced_alone(url)
            return
        # Data of equal sizes have the same index. So do the same data, uploaded again.
        is_same = _tag(current) == _tag(self._index) != ""
        if not is_same or any(map_files(self._is_replaced, {*others})):
            raise changed(url, f"it and other files were written since, at {version.written}")
        self._index = current

    def _is_replaced(self, known: tuple[str, str]) -> bool:
        name, tag = known
        try:
            found = _tag(self._location.modified(name))
        except FileNotFoundError:
            return True
        return found not in ("", tag)  # some servers do not state it if only asked for it


_instances: WeakSet[ObjectPins] = WeakSet()


def _renew_locks() -> None:
    for pins in _instances:
        pins.renew_lock()


os.register_at_fork(after_in_child=_renew_locks)


def _replaced_alone(url: str) -> DatasetChangedError:
    return DatasetChangedError(
        f"{url} and other files were replaced, but {_INDEX} was not, so former and new rows would "
        f"be mixed. Write {_INDEX} again, also if its content is the same, and open the dataset "
        "again. Next time, write to a new directory instead",
        url=url,
    )


def _time(text: str) -> datetime | None:
    """Parse the time in what `Location.modified` returns, in whole seconds; None if unknown."""
    when = parsed_time(_TAG.sub("", text).strip())
    return None if when is None or when.tzinfo is None else when.replace(microsecond=0)


def _tag(text: str) -> str:
    """Return the entity tag in what `Location.modified` returns; "" if it has none."""
    found = _TAG.search(text)
    return found[1] if found else ""


def _bare(tag: str) -> str:
    """Return an entity tag without its quotes, which some stores and clients leave out."""
    return _tag(tag) or tag
