"""A process provides credentials only to its own workers, which cannot log in themselves."""

import pickle
from dataclasses import dataclass
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client
from pathlib import Path

import pytest

from mdstorm_backend.errors import CredentialsError, StorageError
from mdstorm_backend.storage import Location, lending
from mdstorm_backend.storage.credentials import CredentialProvider, Lease
from mdstorm_backend.storage.lending import LentCredentials


@dataclass(frozen=True)
class Stranger(CredentialProvider):
    """Provides credentials for a worker that, unlike its parent, cannot log in."""

    name: str

    def log_in(self) -> None:
        raise CredentialsError("set the variables")

    def fetch(self) -> Lease:
        if self.name != "known":
            raise StorageError(f"there is no {self.name}")
        return Lease({"token": "t"}, 2e9)


def test_parent_sends_credentials_or_its_error_to_workers() -> None:
    lent = LentCredentials(Stranger("known"), lending.own_address())
    lease = lent.fetch()
    assert (lease.options, lease.expires) == ({"token": "t"}, 2e9)
    assert str(lent) == str(Stranger("known"))
    with pytest.raises(StorageError, match="there is no other"):
        LentCredentials(Stranger("other"), lending.own_address()).fetch()


def test_missing_parent_raises_the_login_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(CredentialsError, match="set the variables"):
        LentCredentials(Stranger("known"), str(tmp_path / "gone")).fetch()
    assert "the parent process provides no credentials (FileNotFoundError" in caplog.text


def test_process_without_key_gets_no_credentials_and_does_not_block_others() -> None:
    address = lending.own_address()
    with pytest.raises(AuthenticationError):
        Client(address, authkey=b"another")
    Client(address).close()
    assert LentCredentials(Stranger("known"), address).fetch().options == {"token": "t"}


def test_pickle_not_sent_to_a_worker_contains_only_the_credentials_provider() -> None:
    location = Location("s3://bucket/x", credentials=Stranger("known"))
    assert pickle.loads(pickle.dumps(location)).credentials == Stranger("known")  # noqa: S301
