"""Expiring credentials and their renewal.

A `CredentialProvider` identifies and obtains credentials. It holds no secrets, so that it can be
pickled, compared and printed. The credentials themselves, a `Lease`, are kept once per process, for
all threads and all copies of the provider.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from random import uniform
from typing import Any

from mdstorm_backend.errors import MDStormError

_logger = logging.getLogger(__name__)

#: A lease is renewed when this share of its lifetime is left, but no more than this many seconds
#: before it expires.
_MARGIN, _LONGEST_MARGIN = 1 / 4, 300.0
#: Range of a random factor for the margin, so that processes that start together do not all renew
#: at the same time.
_JITTER = (0.6, 1.0)
#: A refusal counts as expiry once a lease has reached this share of its lifetime, or this age in
#: seconds, whichever comes first. The age is for leases whose lifetime is unknown, because a
#: catalog does not state it, or because the clocks differ.
_YOUNGEST, LONGEST_YOUTH = 1 / 4, 5.0


@dataclass(frozen=True)
class Lease:
    """Temporary credentials for one prefix in an object store.

    Attributes
    ----------
    options : mapping of str to value
        Options of the fsspec file system: the credentials, and how to reach the storage.
    expires : float
        When the credentials expire, in Unix seconds; infinity if unknown.
    begins : float
        When they were obtained, by this machine's clock.
    access_point : str
        Name of the S3 access point that they are for; empty if they are for the bucket.
    """

    options: Mapping[str, Any] = field(repr=False)
    expires: float = inf
    begins: float = field(default_factory=time.time)
    access_point: str = ""

    @property
    def lifetime(self) -> float:
        """Seconds from the request to expiry; infinite if unknown, or if the clocks disagree."""
        seconds = self.expires - self.begins
        return seconds if seconds > 0 else inf


class CredentialProvider(ABC):
    """Obtains and renews credentials. Hashable, without secrets in its attributes."""

    @abstractmethod
    def fetch(self) -> Lease:
        """Obtain new credentials.

        Raises
        ------
        CredentialsError, StorageError
            If they are refused, or the service that issues them fails.
        """

    @abstractmethod
    def log_in(self) -> None:
        """Check that this process has an identity that is allowed to request credentials.

        Raises
        ------
        CredentialsError
            If it has none.
        """

    def refusal(self, url: str, text: str) -> str:
        """Return the message for denied access; `text` is the store's response."""
        return (
            f"{url}: the storage denies access ({text}) with the credentials of {self}. They are "
            "for one directory, and access to missing files is also denied: check that the table "
            "is complete and that this machine's clock is right"
        )

    def current(self) -> Lease:
        """Return credentials that are valid now; obtain them if needed.

        Threads that ask at the same time wait for one request. Near the end of a lease, one thread
        renews it, while the others still use it.
        """
        return lessee_of(self).current()

    def renewed(self, refused: Lease) -> Lease | None:
        """Return new credentials to replace those that the store has refused as expired.

        Returns None if they are too new to have expired.
        """
        return lessee_of(self).renewed(refused)


class _Lessee:
    """The current lease of a provider in this process."""

    def __init__(self, provider: CredentialProvider) -> None:
        self._provider = provider
        self._lease: Lease | None = None
        self._renew_at = -inf
        self.lock = threading.Lock()

    def current(self) -> Lease:
        lease = self._lease
        if lease is not None and time.time() < self._renew_at:
            return lease
        is_valid = lease is not None and time.time() < lease.begins + lease.lifetime
        if not self.lock.acquire(blocking=not is_valid):
            assert lease is not None
            return lease  # another thread is renewing it
        try:
            if lease is not self._lease and self._lease is not None:
                return self._lease  # another thread has renewed it
            return self._fetched(lease if is_valid else None)
        finally:
            self.lock.release()

    def renewed(self, refused: Lease) -> Lease | None:
        with self.lock:
            if self._lease is not None and self._lease is not refused:
                return self._lease
            if time.time() - refused.begins < min(refused.lifetime * _YOUNGEST, LONGEST_YOUTH):
                return None
            return self._fetched(None)

    def _fetched(self, fallback: Lease | None) -> Lease:
        """Obtain a lease; if that fails, return the fallback, which is still valid."""
        try:
            lease = self._provider.fetch()
        except MDStormError as error:
            if fallback is None:
                raise
            left = fallback.begins + fallback.lifetime - time.time()
            _logger.warning(
                "%s: credentials were not renewed (%s). They are valid for another %.0f s, and "
                "renewal will be retried",
                self._provider,
                error,
                left,
            )
            self._renew_at = time.time() + left / 2
            return fallback
        margin = min(lease.lifetime * _MARGIN, _LONGEST_MARGIN) * uniform(*_JITTER)
        self._lease, self._renew_at = lease, lease.begins + lease.lifetime - margin
        return lease


#: The leases of this process, by provider.
lessees: dict[CredentialProvider, _Lessee] = {}
lessees_lock = threading.Lock()


def lessee_of(provider: CredentialProvider) -> _Lessee:
    """Return the lease of a provider in this process."""
    with lessees_lock:
        return lessees.setdefault(provider, _Lessee(provider))


def _after_fork() -> None:
    """Replace locks in a forked child, because a thread in the parent may have held them."""
    global lessees_lock
    lessees_lock = threading.Lock()
    for lessee in lessees.values():
        lessee.lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
