"""Reading S3 objects by range: the requests, and the effect of faults."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.kit.servers.http import StartResponse, WSGIApp, WSGIEnvironment, respond
from tests.kit.servers.s3 import BUCKET, S3Server

from mdstorm_backend.errors import StorageError
from mdstorm_backend.storage import Location, s3_objects
from mdstorm_backend.storage.turns import Pace, RequestTurns, Turn

RANGE, SIZE = 1000, 5500
CONTENT = bytes(i % 251 for i in range(SIZE))
OTHER = CONTENT[::-1]
SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>reduce your request rate</Message></Error>"


@pytest.fixture
def location(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Location:
    monkeypatch.setattr(s3_objects, "RANGE", RANGE)
    monkeypatch.setattr(s3_objects, "PATIENCE", 1)
    found = at(s3)
    found.write("object", [CONTENT])
    s3.reset()
    return found


def at(s3: S3Server, **config: Any) -> Location:
    options = {"endpoint_url": s3.url, "config_kwargs": {"retries": {"max_attempts": 0}, **config}}
    return Location.of(f"s3://{BUCKET}/ranges", options)


def download(location: Location, path: Path, *, timeout: float = 20) -> bytes:
    location.download_known("object", str(path), size=SIZE, timeout=timeout)
    return path.read_bytes()


def broken_off(app: WSGIApp) -> WSGIApp:
    """Return an application that sends only the first half of each response from `app`."""

    def shortened(environ: WSGIEnvironment, start: StartResponse) -> list[bytes]:
        body = b"".join(app(environ, start))
        return [body[: len(body) // 2]]

    return shortened


def test_missing_object_raises_error_after_one_request(s3: S3Server, location: Location) -> None:
    with pytest.raises(FileNotFoundError):
        location.read("none")
    assert len(s3.requests) == 1


@pytest.mark.parametrize(
    ("fault", "times", "requests"),
    [
        (None, 0, 6),
        (broken_off, 1, 7),
        (broken_off, 4, 10),
        (lambda _: respond("503 Slow Down", SLOW_DOWN, ("Retry-After", "1")), 2, 8),
    ],
    ids=["no fault", "one reset", "four resets", "slow down"],
)
def test_retry_requests_only_the_remaining_bytes_of_a_range(
    fault: Any, times: int, requests: int, s3: S3Server, location: Location, tmp_path: Path
) -> None:
    left = iter(range(times))

    def fail(method: str, path: str) -> WSGIApp | None:
        return None if next(left, None) is None else fault(s3.app)

    s3.fault = fail
    assert download(location, tmp_path / "copy") == CONTENT
    assert (s3.count("GET"), len(s3.requests)) == (requests, requests)


def test_ranges_are_requested_before_a_slow_store_answers_the_first_request(
    s3: S3Server, location: Location, tmp_path: Path
) -> None:
    location = at(s3, max_pool_connections=20)  # a client that has never been throttled
    assert location.read("object") == CONTENT
    s3.reset()
    several = threading.Event()

    def hold(method: str, path: str) -> None:
        if s3.count("GET") > 1:
            several.set()
        assert several.wait(20)

    s3.fault = hold
    assert download(location, tmp_path / "copy", timeout=40) == CONTENT
    assert len(s3.requests) == 6


@pytest.mark.parametrize("size", [400, 2000, SIZE + 1, 9000])
def test_object_of_unexpected_size_is_downloaded_completely(
    size: int, location: Location, tmp_path: Path
) -> None:
    location.write("object", [bytes(size)])
    assert len(download(location, tmp_path / "copy")) == size


def test_ranges_of_a_replaced_object_are_never_combined(
    s3: S3Server, location: Location, tmp_path: Path
) -> None:
    one_connection = at(s3, max_pool_connections=1)

    def replace(method: str, path: str) -> None:
        if s3.count("GET") == 3:
            s3.fault = None
            location.write("object", [OTHER])

    s3.fault = replace
    with pytest.raises(StorageError, match="replaced while it was read"):
        download(one_connection, tmp_path / "copy")
    assert download(one_connection, tmp_path / "copy") == OTHER


@pytest.mark.parametrize("broken", [True, False], ids=["always reset", "hung"])
def test_range_that_never_arrives_raises_storage_error(
    broken: bool, s3: S3Server, location: Location, tmp_path: Path
) -> None:
    release = threading.Event()

    def fail(method: str, path: str) -> WSGIApp | None:
        if not broken:
            release.wait(30)
        return respond("206 Partial Content", b"", ("Content-Range", f"bytes 0-1/{SIZE}"))

    s3.fault = fail
    text = "was interrupted 5 times" if broken else r"no data was received for 0\.2 s"
    try:
        with pytest.raises(StorageError, match=text):
            download(location, tmp_path / "copy", timeout=20 if broken else 0.2)
    finally:
        release.set()


@pytest.mark.parametrize(
    ("status", "after", "says"),
    [("503 Slow Down", "0", ""), ("429 Too Many Requests", "60", ", and asks to wait 60 s")],
)
def test_error_quotes_the_stores_response_to_a_refused_request(
    status: str, after: str, says: str, s3: S3Server, location: Location, tmp_path: Path
) -> None:
    location = at(s3, max_pool_connections=len(status))  # a separate client with its own limits
    s3.fault = lambda method, path: respond(status, SLOW_DOWN, ("Retry-After", after))
    text = rf"answers {status} \(SlowDown: reduce your request rate\){says}$"
    with pytest.raises(StorageError, match=text):
        download(location, tmp_path / "copy", timeout=1)
    with pytest.raises(StorageError, match=text):
        location.read("object")
    assert len(s3.requests) < (2 if after == "60" else 15)


def failing(s3: S3Server, status: str, fails: Callable[[list[bool]], bool]) -> list[bool]:
    """Refuse some requests; return a list that records whether each request had a signed URL.

    A request is refused with `status` if `fails` returns true for this list.
    """
    signed: list[bool] = []

    def answer(environ: WSGIEnvironment, start: StartResponse) -> Any:
        signed.append("Signature=" in environ["QUERY_STRING"])
        return (respond(status) if fails(signed) else s3.app)(environ, start)

    s3.fault = lambda method, path: answer
    return signed


def test_store_that_refuses_signed_urls_is_read_through_its_client(
    s3: S3Server, location: Location, tmp_path: Path
) -> None:
    signed = failing(s3, "403 Forbidden", lambda signed: signed[-1])
    location = at(s3, max_pool_connections=2)  # a separate client, so that others still sign URLs
    for _ in range(2):
        assert download(location, tmp_path / "copy") == CONTENT
    assert sum(signed) == 1  # one refusal is enough


def test_signed_url_that_is_refused_after_being_accepted_is_renewed(
    s3: S3Server, location: Location, tmp_path: Path
) -> None:
    """The URL's credentials have expired, which only Amazon S3 reports as ExpiredToken."""
    signed = failing(s3, "403 Forbidden", lambda signed: len(signed) == 3)
    for _ in range(2):
        assert download(location, tmp_path / "copy") == CONTENT
    assert all(signed)


def test_signed_urls_are_used_again_after_a_failed_request(
    s3: S3Server, location: Location, tmp_path: Path
) -> None:
    signed = failing(s3, "500 Internal Server Error", lambda signed: len(signed) == 1)
    assert download(location, tmp_path / "copy") == CONTENT
    assert signed == [True, False, *[True] * 5]


def test_equal_file_systems_do_not_share_turns(s3: S3Server) -> None:
    """Otherwise the second one would get other turns once the first one is collected."""
    fsspec = pytest.importorskip("fsspec")
    options = {**s3.options(), "skip_instance_cache": True}
    first, second = (fsspec.filesystem("s3", **options) for _ in range(2))
    assert first == second
    turns = s3_objects.turns_of(first)
    assert s3_objects.turns_of(second) is not turns is s3_objects.turns_of(first)


def test_all_bytes_of_a_download_are_counted_as_they_arrive(
    location: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, requests would wait for the end of earlier ones, and the link would idle."""
    arrived: list[int] = []
    count = RequestTurns.arrived

    def record(turns: RequestTurns, size: int) -> None:
        arrived.append(size)
        count(turns, size)

    monkeypatch.setattr(RequestTurns, "arrived", record)
    assert download(location, tmp_path / "copy") == CONTENT
    assert sum(arrived) == SIZE


def test_request_limit_is_twice_the_link_capacity() -> None:
    pace, now = Pace(64), 1.0
    for _ in range(8):
        size, pace.is_full = round(pace.bytes) // 16, True
        seconds = max(pace.bytes / 400e6, 0.5)  # a 400 MB/s link that answers in half a second
        for _ in range(17):
            pace.answered(now, now + seconds, size)
        now += seconds
    assert pace.bytes == pytest.approx(400e6, rel=0.2)


def test_throttling_halves_concurrent_requests_until_one_succeeds() -> None:
    pace = Pace(64)
    for _ in range(10):
        pace.refused(1.0, 1.5, 0.0, "busy")
    assert pace.requests == 32  # concurrent refusals halve the limit only once
    for i in range(10):
        pace.refused(2.0 + i, 2.5 + i, 0.0, "busy")
    assert pace.requests == 1
    for _ in range(3):
        pace.answered(20.0, 21.0, 1)
    assert 2 < pace.requests < 4


def test_earlier_requests_go_first_and_failed_requests_release_their_slots() -> None:
    order: list[tuple[int, int]] = []

    async def take(turns: RequestTurns, *place: int) -> None:
        async with turns.taken(*place, size=1):
            order.append(place)
            await asyncio.sleep(0)
            if place == (2, 0):
                raise ValueError

    async def main() -> None:
        turns = RequestTurns(Pace(1, is_given=True))
        places = [(2, 0), (2, 8), (3, 0), (1, 8), (1, 0), (1, 0)]
        tasks = [asyncio.ensure_future(take(turns, *place)) for place in places]
        await asyncio.sleep(0)
        tasks[2].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(main())
    assert order == [(2, 0), (1, 0), (1, 0), (1, 8), (2, 8)]


Place = tuple[int, int]


class Requests:
    """Requests of equal size, which hold their turns until the block ends."""

    def __init__(self, turns: RequestTurns, places: list[Place], size: int) -> None:
        self.begun: dict[Place, Turn] = {}
        self._turns, self._places, self._size = turns, places, size
        self._is_over = asyncio.Event()

    async def _take(self, place: Place) -> None:
        async with self._turns.taken(*place, self._size) as turn:
            self.begun[place] = turn
            await self._is_over.wait()

    async def arrive(self, *places: Place) -> list[Place]:
        """Receive all bytes of some requests; return the requests that have begun."""
        for place in places:
            self.begun[place].arrived(self._size)
        for _ in range(2):
            await asyncio.sleep(0)
        return [*self.begun]

    async def __aenter__(self) -> "Requests":
        self._tasks = [asyncio.ensure_future(self._take(place)) for place in self._places]
        await self.arrive()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_over.set()
        await asyncio.gather(*self._tasks)


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(coroutine, 30))


def test_next_request_begins_once_enough_bytes_have_arrived() -> None:
    async def main() -> None:
        turns, places = RequestTurns(Pace(64)), [(0, 0), (0, 8)]
        turns.pace.bytes = 10
        async with Requests(turns, places, 8) as requests:
            assert [*requests.begun] == places[:1]
            requests.begun[0, 0].arrived(6)  # 10 bytes of the two requests have yet to arrive
            assert await requests.arrive() == places
        async with turns.taken(0, 0, 10), turns.taken(0, 10, 0):
            pass  # does not wait, because both turns have ended

    run(main())


def test_idle_link_gets_few_requests_until_the_first_bytes_arrive() -> None:
    async def main() -> None:
        turns, places = RequestTurns(Pace(64)), [(0, start) for start in range(5)]
        for _ in range(2):  # the link is idle again after the first round
            async with Requests(turns, places, 8 << 20) as requests:
                assert ([*requests.begun], turns.pace.is_full) == (places[:2], False)
                assert await requests.arrive(places[0]) == places

    run(main())


def test_idle_link_gets_only_the_first_work_until_bytes_arrive() -> None:
    async def main() -> None:
        places = [(work, start) for work in range(7, 17) for start in range(2)]
        async with Requests(RequestTurns(Pace(64)), places, 100) as requests:
            assert [*requests.begun] == places[:2]  # the first block's shards
            # 8 further ones for each that has arrived
            assert await requests.arrive((7, 1)) == places[:9]
            assert await requests.arrive((7, 0)) == places[:18]

    run(main())


def test_idle_link_gets_more_requests_as_bytes_arrive() -> None:
    async def main() -> None:
        turns, places = RequestTurns(Pace(64)), [(0, start) for start in range(64)]
        async with Requests(turns, places, 1 << 20) as requests:
            assert [*requests.begun] == places[:16]
            assert await requests.arrive(places[0]) == places[:25]
            assert await requests.arrive(*places[1:3]) == places[:43]
            assert not turns.pace.is_full  # even though requests are waiting

    run(main())
