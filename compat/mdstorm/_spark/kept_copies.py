"""Find copies that outlive their process by `cache_key`, list them, and remove unused ones."""

from __future__ import annotations

import hashlib
import json
import logging
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone

from mdstorm._spark.deletion import copy_names, delete_dir
from mdstorm._spark.renewed import Renewed, is_alive, is_recent
from mdstorm_backend.base import map_files, parse_json
from mdstorm_backend.format import INDEX_NAME, MARKER_NAME
from mdstorm_backend.storage import Location, seconds_of

_NOTES = "_mdstorm_cache_key_"
_CLAIMS = "_mdstorm_converting_"
#: Seconds to wait before reading a claim back, so that another process that has seen no claim can
#: finish writing its own.
_SETTLE_SECONDS = 0.5
_POLL_SECONDS = 1.0
#: Maximum number of seconds to wait while another process is converting the same source.
LONGEST_WAIT = 86_400.0
_logger = logging.getLogger("mdstorm.spark.spark_dataset_converter")


@dataclass(frozen=True)
class KeptCopy:
    """A finished copy in a parent cache directory.

    Attributes
    ----------
    url : str
        URL of the copy.
    key : str or None
        The `cache_key` of the copy, even if a newer copy has since replaced it.
    shards, bytes : int
        Number of shards, and total size of all files.
    converted, last_use : datetime.datetime
        When the copy was written, and when a process with a converter for it was last alive, in
        UTC.
    """

    url: str
    key: str | None
    shards: int
    bytes: int
    converted: datetime
    last_use: datetime

    @property
    def is_in_use(self) -> bool:
        """Whether any process has a converter for the copy."""
        return is_recent(self.last_use.timestamp())


class CacheKey:
    """The copies that processes share under a `cache_key`.

    If several processes look for a copy at the same time, one converts and the others wait. The
    claim is a file, which also works in stores without locks: each process writes its own ID into
    the file, and the last process to do so converts. If a write takes longer than the other
    processes wait for it, two processes convert, and the second one removes its copy.

    Parameters
    ----------
    parent : str
        URL of the parent cache directory.
    key : str
        The key.
    """

    def __init__(self, parent: str, key: str) -> None:
        digest = hashlib.sha256(key.encode()).hexdigest()[:24]
        self._key, self._parent = key, Location.of(parent)
        self._note, self.claim_name = f"{_NOTES}{digest}", f"{_CLAIMS}{digest}"

    def find_or_convert(self, source: str, convert: Callable[[], str], known: str | None) -> str:
        """Return the URL of the copy, converting the source if there is no copy.

        Parameters
        ----------
        source : str
            Fingerprint of the data to convert.
        convert : callable
            Writes a copy and returns its URL.
        known : str, optional
            A copy without a key, to use instead of converting.
        """
        found = self._find(source)
        if found is None:
            with self._claimed(source):
                found = self._find(source) or self.add(known or convert(), source, known)
        return found

    def _find(self, source: str) -> str | None:
        """Return the newest copy of the source that still exists."""
        return next((url for url, of in self._copies() if of == source and _exists(url)), None)

    def _copies(self) -> list[tuple[str, str]]:
        """Return the URL and source of each copy listed in the key's note, newest first."""
        return _copies_in(self._parent, self._note)

    def add(self, url: str, source: str, known: str | None) -> str:
        """Record a copy, remove the copies that it replaces, and return the copy to use."""
        twin = self._find(source)
        if twin is not None:
            if url != known:
                delete_dir(url)
            return twin
        earlier = [copy for copy in self._copies() if _exists(copy[0])]
        # The newest of the earlier copies is always kept: a process that has just found it may not
        # have marked it as in use yet.
        kept = [(url, source), *earlier[:1], *(one for one in earlier[1:] if _is_kept(one[0]))]
        copies = [{"directory": directory, "source": of} for directory, of in kept]
        note = {"cache_key": self._key, "copies": copies}
        self._parent.write(self._note, [json.dumps(note).encode()])
        return url

    @contextmanager
    def _claimed(self, source: str) -> Iterator[None]:
        """Hold the claim on the key, or wait until another process has converted the source."""
        deadline, is_waiting = time.monotonic() + LONGEST_WAIT, False
        while not self._claim():
            if not is_waiting:
                _logger.warning(
                    "another process is converting cache_key=%r under %s: waiting for its copy",
                    self._key,
                    self._parent.url,
                )
                is_waiting = True
            if self._find(source) or time.monotonic() > deadline:
                yield
                return
            time.sleep(_POLL_SECONDS)
        claim = Renewed(self._parent.url, self.claim_name)
        try:
            yield
        finally:
            claim.stop()
            self._release()

    def _release(self) -> None:
        try:
            self._parent.remove(self.claim_name)
        except Exception as error:  # the copy is complete, and the claim will expire
            file = self._parent.file_url(self.claim_name)
            _logger.warning("could not remove %s: %r", file, error)

    def _claim(self) -> bool:
        """Try to claim the key, and return whether this process may convert."""
        if is_alive(self._parent, self.claim_name):
            return False
        ours = uuid.uuid4().bytes
        try:
            self._parent.make_directory()
            self._parent.write(self.claim_name, [ours])
        except OSError as error:
            _logger.warning(
                "could not write to %s (%r): other processes with this cache_key may also convert",
                self._parent.url,
                error,
            )
            return True
        time.sleep(_SETTLE_SECONDS)
        try:
            return bytes(self._parent.read(self.claim_name)) == ours
        except FileNotFoundError:  # another process has converted in the meantime
            return False


def _copies_in(parent: Location, note: str) -> list[tuple[str, str]]:
    """Return the URL and source of each copy listed in a note, newest first."""
    try:
        listed = parse_json(parent.read(note))["copies"]
        return [(str(copy["directory"]), str(copy["source"])) for copy in listed]
    except (FileNotFoundError, KeyError, TypeError, ValueError):
        return []


def remove_notes_of(url: str) -> None:
    """Remove the notes that list a deleted copy, and no copy that still exists."""
    parent = Location.of(url.rpartition("/")[0])
    try:
        for note in parent.list_matches(f"{_NOTES}*"):
            urls = [copy for copy, _ in _copies_in(parent, note)]
            if url in urls and not any(map(_exists, urls)):
                parent.remove(note)
    except OSError as error:  # the copy is deleted, and a note without copies does no harm
        _logger.warning("could not remove notes on %s: %r", url, error)


def _exists(url: str) -> bool:
    return Location.of(url).exists(INDEX_NAME)


def _is_kept(url: str) -> bool:
    """Whether a replaced copy must be kept: it is in use, or this call could not remove it."""
    if is_alive(Location.of(url), MARKER_NAME):
        return True
    try:
        delete_dir(url)
    except Exception as error:  # the conversion can continue
        _logger.warning("could not remove the replaced copy %s: %r", url, error)
        return True
    return False


def list_copies(parent: str) -> list[KeptCopy]:
    """List the finished copies in a parent cache directory, least recently used first."""
    location = Location.of(parent)
    names = location.list_matches("*")
    keys = _keys(location, [name for name in names if name.startswith(_NOTES)])
    described = map_files(lambda name: _described(location, name, keys), copy_names(names))
    return sorted((copy for copy in described if copy), key=lambda copy: (copy.last_use, copy.url))


def _keys(parent: Location, notes: list[str]) -> dict[str, str]:
    """Return the cache key of each copy, by directory name."""
    keys = {}
    for name in notes:
        try:
            note = parse_json(parent.read(name))
            key, copies = str(note["cache_key"]), note["copies"]
            keys.update({str(copy["directory"]).rpartition("/")[2]: key for copy in copies})
        except (FileNotFoundError, KeyError, TypeError, ValueError) as error:
            _logger.warning("%s cannot be read (%r)", parent.file_url(name), error)
    return keys


def _described(parent: Location, name: str, keys: dict[str, str]) -> KeptCopy | None:
    files = dict(parent.child(name).list_files())
    if INDEX_NAME not in files or MARKER_NAME not in files:
        return None
    return KeptCopy(
        url=parent.file_url(name),
        key=keys.get(name),
        shards=sum(file.startswith("part-") for file in files),
        bytes=sum(info["size"] for info in files.values()),
        converted=_time_of(seconds_of(files[INDEX_NAME])),
        last_use=_time_of(max(map(seconds_of, files.values()))),
    )


def _time_of(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, timezone.utc)
