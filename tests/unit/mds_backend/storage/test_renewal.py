"""Expiring credentials are renewed once per process and lifetime, and never pickled."""

import logging
import os
import pickle
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from math import inf
from typing import Any, ClassVar

import pytest
from tests.kit.servers.s3 import BUCKET, S3Server
from tests.kit.servers.vending import MARK, GuardedS3

from mdstorm_backend import errors
from mdstorm_backend.storage import Location
from mdstorm_backend.storage import credentials as renewal
from mdstorm_backend.storage.credentials import CredentialProvider, Lease
from mdstorm_backend.storage.stores import s3 as stores_s3
from mdstorm_backend.tables.delta_options import of_delta_rs

PREFIX = "vended/table/"


@dataclass(frozen=True)
class Vendor(CredentialProvider):
    """Provides tokens that the guarded S3 server accepts."""

    name: str
    seconds: float = 3600.0
    guard: ClassVar[GuardedS3]
    failing: ClassVar[bool] = False

    def log_in(self) -> None:
        """Do nothing, because anyone may request these credentials."""

    def fetch(self) -> Lease:
        if self.failing:
            raise errors.StorageError("the catalog is down")
        token = self.guard.hand_out(PREFIX, self.seconds)
        return Lease({**token.keys(), "endpoint_url": self.guard.url}, token.expires)


@pytest.fixture(scope="module")
def guard(started_s3: S3Server) -> Iterator[GuardedS3]:
    with closing(GuardedS3(started_s3)) as found:
        yield found


class Clock:
    """The `renewal` clock, which tests advance."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = time.time()
        monkeypatch.setattr(renewal.time, "time", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def place(
    guard: GuardedS3,
    s3: S3Server,
    monkeypatch: pytest.MonkeyPatch,
    fresh_filesystems: None,
    clock: Clock,
) -> Location:
    """A directory with one file, on a server that does not accept the keys in the environment."""
    guard.reset()
    guard.shows_missing = False
    Vendor.guard, Vendor.failing = guard, False
    Location.of(f"s3://{BUCKET}/{PREFIX}", {"endpoint_url": s3.url}).write("a", [b"content"])
    monkeypatch.setenv("AWS_ENDPOINT_URL", guard.url)
    return Location(f"s3://{BUCKET}/{PREFIX.rstrip('/')}", credentials=Vendor("t"))


def test_location_reads_with_credentials_from_its_provider(
    place: Location, guard: GuardedS3
) -> None:
    assert place.read("a") == b"content"
    assert [name for name, _ in place.list_files()] == ["a"]
    assert place.read_range("a", 2, 4) == b"nt"
    assert place.stat("a")["size"] == 7
    assert len(guard.handed_out) == 1
    with pytest.raises(errors.CredentialsError, match=r"the credentials of Vendor.*one directory"):
        place.read("missing")
    with pytest.raises(errors.CredentialsError, match="Vendor"):
        Location(f"s3://{BUCKET}/other", credentials=Vendor("t")).read("a")
    assert len(guard.handed_out) == 1


def test_request_with_expired_credentials_is_repeated_once(
    place: Location, guard: GuardedS3, clock: Clock
) -> None:
    """The token expires early on the server, as if the clocks differed."""
    reads: list[Any] = [
        lambda: place.read("a"),
        lambda: place.stat("a"),
        place.list_files,
        lambda: place.read_range("a", 0, 2),
    ]
    for read in reads:
        read()
        clock.now += 120
        last = guard.handed_out[-1]
        guard.handed_out[-1] = type(last)(last.prefix, 0.0, last.key, last.secret, last.session)
        before = len(guard.handed_out)
        assert read()
        assert len(guard.handed_out) == before + 1
    assert guard.expired >= len(reads)


def test_credentials_that_expire_without_notice_are_renewed_after_being_refused(
    place: Location, guard: GuardedS3, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each token expires after ten seconds, but its lease does not state that."""
    fetch = Vendor.fetch
    monkeypatch.setattr(Vendor, "fetch", lambda self: replace(fetch(self), expires=inf))
    for count in range(1, 4):
        assert place.read("a") == b"content"
        assert len(guard.handed_out) == count
        clock.now += 10
        guard.handed_out[-1] = replace(guard.handed_out[-1], expires=0.0)


def test_new_credentials_that_are_already_expired_raise_error(
    place: Location, guard: GuardedS3
) -> None:
    place = Location(place.url, credentials=Vendor("short", seconds=-5))
    for read in (lambda: place.read("a"), lambda: place.stat("a")):
        with pytest.raises(errors.CredentialsError, match="the credentials have expired") as caught:
            read()
        assert caught.value.is_expired
        assert "Vendor(name='short'" in str(caught.value)


def test_threads_share_one_request_for_credentials_and_renew_them_before_expiry(
    place: Location, guard: GuardedS3, clock: Clock
) -> None:
    provider = Vendor("t")
    begin = threading.Barrier(8)

    def ask() -> None:
        begin.wait()
        for _ in range(50):
            pickle.loads(pickle.dumps(provider)).current()  # noqa: S301

    for lifetimes in range(1, 4):
        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(guard.handed_out) == lifetimes
        clock.now += 3600 - 60  # renewed at a random time in the last five minutes
    clock.now -= 3600 - 60 - 3299
    assert provider.current().options["key"] == guard.handed_out[-1].key
    assert guard.expired == 0


def test_failed_renewal_is_logged_and_old_credentials_are_used_until_expiry(
    place: Location,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    provider = Vendor("t")
    first = provider.current()
    clock.now += 3590
    monkeypatch.setattr(Vendor, "failing", True)
    with caplog.at_level(logging.WARNING):
        assert provider.current() is first
    assert "credentials were not renewed (the catalog is down)" in caplog.text
    assert provider.current() is first
    clock.now += 20
    with pytest.raises(errors.StorageError, match="the catalog is down"):
        provider.current()
    monkeypatch.setattr(Vendor, "failing", False)
    assert provider.current() is not first


def test_forked_child_uses_its_parents_credentials(place: Location, guard: GuardedS3) -> None:
    place.read("a")
    provider = place.credentials
    assert provider is not None
    held = threading.Event()
    done = threading.Event()

    def hold() -> None:
        with renewal.lessee_of(provider).lock, renewal.lessees_lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        os._exit(0 if provider.renewed(provider.current()) is None else 1)
    done.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
    assert len(guard.handed_out) == 1


def test_credentials_that_seem_expired_due_to_a_wrong_clock_are_used(
    place: Location, guard: GuardedS3, clock: Clock
) -> None:
    clock.now += 7200
    for _ in range(3):
        assert place.read("a") == b"content"
    assert len(guard.handed_out) == 1


@pytest.mark.long
def test_credentials_changed_in_the_environment_are_used(
    place: Location, guard: GuardedS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", guard.url)
    location = Location.of(place.url, {"endpoint_url": guard.url})
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")

    def set_token(seconds: float) -> None:
        for name, value in zip(names, guard.hand_out(PREFIX, seconds).keys().values(), strict=True):
            monkeypatch.setenv(name, value)

    set_token(-1)
    for read in (lambda: location.read("a"), lambda: location.stat("a")):
        with pytest.raises(errors.CredentialsError, match="the credentials have expired") as caught:
            read()
        assert "set: AWS_ACCESS_KEY_ID" in str(caught.value)
        assert MARK not in str(caught.value)
    set_token(3600)
    assert location.read("a") == b"content"
    # The next request uses a different token, without an error in between.
    set_token(3600)
    guard.handed_out[-2] = guard.handed_out[-1]
    assert location.stat("a")["size"] == 7
    set_token(-1)
    with pytest.raises(errors.CredentialsError, match="have expired"):
        location.stat("a")


def test_bucket_region_is_requested_from_the_store(
    place: Location, s3: S3Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Credentials from a catalog have no region, but deltalake needs one."""
    monkeypatch.setattr(stores_s3, "REGIONS_ENDPOINT", s3.url)
    stores_s3.bucket_region.cache_clear()
    keys = Lease({"key": "k", "secret": "s", "token": "t"})
    monkeypatch.setattr(Vendor, "fetch", lambda self: keys)
    assert "AWS_REGION" not in of_delta_rs(place)[1]  # an endpoint is enough
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    url, options = of_delta_rs(place)
    assert (url, options["AWS_REGION"], options["AWS_SESSION_TOKEN"]) == (
        place.url,
        "us-east-1",
        "t",
    )
    monkeypatch.setattr(stores_s3, "REGIONS_ENDPOINT", "http://127.0.0.1:9")
    stores_s3.bucket_region.cache_clear()
    with caplog.at_level(logging.WARNING):
        assert "AWS_REGION" not in of_delta_rs(place)[1]
    assert f"the region of the bucket {BUCKET} is not known" in caplog.text
    stores_s3.bucket_region.cache_clear()
