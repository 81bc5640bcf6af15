"""Credentials that a process obtains for worker processes that cannot log in themselves.

A notebook's identity, for example, is not passed on to spawned processes. When one is started, its
parent listens on a socket that only its own children can use, because `multiprocessing` gives them
the key. Pickles hold the address of the socket, never credentials.
"""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import dataclass
from multiprocessing import AuthenticationError, context, current_process
from multiprocessing.connection import Client, Connection, Listener

from mdstorm_backend.errors import CredentialsError, MDStormError
from mdstorm_backend.storage.credentials import CredentialProvider, Lease

_logger = logging.getLogger(__name__)

#: Seconds to wait for the parent, which may retry requests to a catalog for a minute.
_PATIENCE = 120.0


@dataclass(frozen=True)
class LentCredentials(CredentialProvider):
    """Credentials that the parent process obtains if this process cannot log in.

    Attributes
    ----------
    provider : CredentialProvider
        Obtains them, here or in the parent.
    address : str
        Where the parent listens.
    """

    provider: CredentialProvider
    address: str

    def __str__(self) -> str:
        return str(self.provider)

    def log_in(self) -> None:
        """Do nothing: the parent process can log in instead."""

    def fetch(self) -> Lease:
        """Obtain new credentials; for errors see `CredentialProvider.fetch`."""
        try:
            self.provider.log_in()
        except CredentialsError as error:
            _logger.info("%s: requesting credentials from the parent process (%s)", self, error)
            answer = self._ask_parent()
            if answer is None:
                raise
        else:
            return self.provider.fetch()
        if isinstance(answer, MDStormError):
            raise answer
        return answer

    def _ask_parent(self) -> Lease | MDStormError | None:
        """Return credentials from the parent process, or its error; None if it does not answer."""
        try:
            with Client(self.address, authkey=bytes(current_process().authkey)) as parent:
                parent.send(self.provider)
                if not parent.poll(_PATIENCE):
                    raise TimeoutError(f"it did not answer in {_PATIENCE:g} s")
                found: Lease | MDStormError = parent.recv()
                return found
        except (OSError, EOFError, AuthenticationError) as error:
            _logger.warning("%s: the parent process provides no credentials (%r)", self, error)
            return None


def lendable(provider: CredentialProvider | None) -> CredentialProvider | None:
    """Return the provider to pickle: for a process being spawned, one that can ask this process."""
    if provider is None or context.get_spawning_popen() is None:
        return provider
    return LentCredentials(provider, own_address())


#: Listening address by process id; a forked child has none yet.
_addresses: dict[int, str] = {}
_lock = threading.Lock()


def own_address() -> str:
    """Return the address where this process listens; the first call starts the listener."""
    with _lock:
        if os.getpid() not in _addresses:
            listener = Listener(family="AF_UNIX", authkey=bytes(current_process().authkey))
            name = "mdstorm-credentials"
            threading.Thread(target=_serve, args=(listener,), name=name, daemon=True).start()
            _addresses[os.getpid()] = str(listener.address)
        return _addresses[os.getpid()]


def _serve(listener: Listener) -> None:
    """Answer the workers of this process until it ends."""
    while True:
        try:
            with listener.accept() as worker:
                _answer(worker)
        except (OSError, EOFError, AuthenticationError) as error:  # the worker has exited
            _logger.info("a worker process was given no credentials (%r)", error)


def _answer(worker: Connection) -> None:
    """Obtain credentials for a worker and send it the credentials or the error."""
    provider: CredentialProvider = worker.recv()
    try:
        answer: Lease | MDStormError = provider.fetch()
    except MDStormError as error:
        answer = error
    worker.send(answer)


def _after_fork() -> None:
    """Replace the lock in a forked child, because a thread in the parent may have held it."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
