"""Copies with a `cache_key`: simultaneous requests by several processes, and changing sources."""

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from tests.kit.kept import NAME, set_age, write_copy
from tests.kit.programs import without_session
from tests.kit.servers.s3 import BUCKET, S3Server

from mdstorm._spark import kept_copies, list_copies, renewed
from mdstorm._spark.kept_copies import CacheKey
from mdstorm._spark.renewed import Renewed
from mdstorm.spark.spark_dataset_converter import register_delete_dir_handler
from mdstorm_backend.storage import Location

#: Waits until all processes have started, and converts a frame under a shared key, without Spark.
PROGRAM = """
import json, os, sys, time, uuid
from pathlib import Path
from types import SimpleNamespace
from mdstorm._spark.copies import find_or_convert
from mdstorm_backend.storage import Location

parent, barrier, count = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
frame = SimpleNamespace(
    schema=SimpleNamespace(json=lambda: "{}"),
    select=lambda _: SimpleNamespace(semanticHash=lambda: 1),
    inputFiles=list,
)

def convert():
    url = f"{parent}/20260102030405-appid-local-1-{uuid.uuid4()}"
    location = Location.of(url)
    location.make_directory()
    for name in ("_mdstorm", "part-00000-0123abcd-0.00000.mds", "index.json"):
        location.write(name, [b"{}"])
    return url

(barrier / str(os.getpid())).touch()
while len(list(barrier.iterdir())) < count:
    time.sleep(0.01)
print(find_or_convert(frame, {"parent": parent}, convert, "one"))
"""


def must_not_convert() -> str:
    raise AssertionError("there is already a copy")


def copies_in(parent: Path) -> list[str]:
    return sorted(path.as_uri() for path in parent.glob(f"{NAME}*"))


@pytest.mark.long
def test_eight_processes_sharing_a_key_write_one_copy(tmp_path: Path) -> None:
    program, barrier, parent = tmp_path / "program.py", tmp_path / "barrier", tmp_path / "cache"
    program.write_text(PROGRAM)
    barrier.mkdir()
    command = [sys.executable, str(program), parent.as_uri(), str(barrier), "8"]
    running = [
        subprocess.Popen(command, env=without_session(), stdout=subprocess.PIPE, text=True)
        for _ in range(8)
    ]
    urls = {process.communicate()[0].strip() for process in running}
    assert [process.returncode for process in running] == [0] * 8
    assert urls == set(copies_in(parent))
    assert len(urls) == 1
    assert len(list(parent.iterdir())) == 2  # the copy and the cache key file; no claim file


class TestClaims:
    """`CacheKey.find_or_convert`: which process converts and which processes wait."""

    def test_only_one_of_eight_threads_sharing_a_key_converts(self, tmp_path: Path) -> None:
        made: list[str] = []

        def convert() -> str:
            made.append(write_copy(tmp_path, len(made)))
            return made[-1]

        def find(_: int) -> str:
            return CacheKey(tmp_path.as_uri(), "one").find_or_convert("source", convert, None)

        with ThreadPoolExecutor(8) as pool:
            found = set(pool.map(find, range(8)))
        assert copies_in(tmp_path) == list(found)

    @pytest.mark.long
    def test_threads_with_same_cache_key_share_one_copy_in_object_store(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pytest.importorskip("s3fs")
        with closing(S3Server()) as server:
            for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
                monkeypatch.setenv(variable, "any")
            monkeypatch.setenv("S3_ENDPOINT_URL", server.url)
            parent = f"s3://{BUCKET}/kept"

            def convert() -> str:
                location = Location.of(f"{parent}/{NAME}1")
                for name in ("_mdstorm", "index.json"):
                    location.write(name, [b"{}"])
                return location.url

            def find(_: int) -> str:
                return CacheKey(parent, "one").find_or_convert("source", convert, None)

            with ThreadPoolExecutor(4) as pool:
                assert set(pool.map(find, range(4))) == {f"{parent}/{NAME}1"}
            (copy,) = list_copies(parent)
            assert (copy.key, copy.is_in_use) == ("one", True)
            server.grow_old(f"kept/{NAME}1/")
            assert not list_copies(parent)[0].is_in_use
            Renewed(copy.url, "_mdstorm").renew()
            assert list_copies(parent)[0].is_in_use
            assert len(server.objects("kept/")) == 3

    def test_claim_of_dead_process_is_taken_over(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        key = CacheKey(tmp_path.as_uri(), "one")
        claim = tmp_path / key.claim_name
        claim.write_text("a process that was killed")
        pauses: list[float] = []

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 3:  # backdate the claim, as if its process had died
                os.utime(claim, (1e9, 1e9))

        monkeypatch.setattr(kept_copies.time, "sleep", pause)
        url = key.find_or_convert("source", lambda: write_copy(tmp_path, 1), None)
        assert url == copies_in(tmp_path)[0]
        assert len(pauses) == 4  # three pauses while waiting, and one after the new claim
        assert not claim.exists()

    def test_waiting_process_uses_copy_written_by_other_process(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        key, other = (CacheKey(tmp_path.as_uri(), "one") for _ in range(2))
        (tmp_path / key.claim_name).write_text("another process")
        monkeypatch.setattr(
            kept_copies.time, "sleep", lambda _: other.add(write_copy(tmp_path, 1), "source", None)
        )
        assert key.find_or_convert("source", must_not_convert, None) == copies_in(tmp_path)[0]
        assert "another process is converting cache_key='one'" in caplog.text
        assert (tmp_path / key.claim_name).exists()  # the claim belongs to the other process

    def test_process_converts_after_the_longest_wait(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        key = CacheKey(tmp_path.as_uri(), "one")
        (tmp_path / key.claim_name).write_text("a process that hangs")
        monkeypatch.setattr(kept_copies, "LONGEST_WAIT", -1.0)
        url = key.find_or_convert("source", lambda: write_copy(tmp_path, 1), None)
        assert copies_in(tmp_path) == [url]

    def test_second_copy_from_simultaneous_conversions_is_removed(self, tmp_path: Path) -> None:
        key, other = (CacheKey(tmp_path.as_uri(), "one") for _ in range(2))

        def convert() -> str:
            other.add(write_copy(tmp_path, 1), "source", None)
            return write_copy(tmp_path, 2)

        url = key.find_or_convert("source", convert, None)
        assert copies_in(tmp_path) == [url]
        assert url.endswith("-1")

    def test_failed_conversion_leaves_no_claim(self, tmp_path: Path) -> None:
        key = CacheKey(tmp_path.as_uri(), "one")
        with pytest.raises(AssertionError, match="there is already a copy"):
            key.find_or_convert("source", must_not_convert, None)
        assert list(tmp_path.iterdir()) == []

    def test_unwritable_parent_directory_converts_without_claim(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        key = CacheKey("file:///proc/nothing", "one")
        with pytest.raises(AssertionError, match="there is already a copy"):
            key.find_or_convert("source", must_not_convert, None)
        assert "could not write to file:///proc/nothing" in caplog.text


class TestReplacedCopies:
    """Copies that share a key while their source changes."""

    @pytest.fixture
    def convert(self, tmp_path: Path) -> Callable[[int], str]:
        """Return a function that converts one day's source, a day after the previous call."""
        key = CacheKey(tmp_path.as_uri(), "daily")

        def convert(day: int) -> str:
            for url in copies_in(tmp_path):
                set_age(url, 86_400)
            return key.find_or_convert(f"day {day}", lambda: write_copy(tmp_path, day), None)

        return convert

    def test_last_two_copies_for_a_cache_key_are_kept(
        self, tmp_path: Path, convert: Callable[[int], str]
    ) -> None:
        urls = [convert(day) for day in range(5)]
        assert copies_in(tmp_path) == urls[3:]
        assert {copy.key for copy in list_copies(str(tmp_path))} == {"daily"}

    def test_earlier_copy_is_found_when_its_source_is_requested_again(
        self, convert: Callable[[int], str]
    ) -> None:
        first, second = convert(1), convert(2)
        assert (convert(1), convert(2)) == (first, second)

    def test_replaced_copy_is_kept_while_it_is_in_use(
        self, tmp_path: Path, convert: Callable[[int], str]
    ) -> None:
        urls = [convert(0), convert(1)]
        key = CacheKey(tmp_path.as_uri(), "daily")
        use = Renewed(urls[0], "_mdstorm")
        renewed.renew_all()
        urls.append(key.find_or_convert("day 2", lambda: write_copy(tmp_path, 2), None))
        assert copies_in(tmp_path) == urls
        assert {copy.key for copy in list_copies(str(tmp_path))} == {"daily"}
        use.stop()
        assert (convert(3), copies_in(tmp_path)) == (urls[2][:-1] + "3", copies_in(tmp_path)[-2:])

    @pytest.mark.usefixtures("default_delete_handler")
    def test_replaced_copy_that_cannot_be_removed_is_removed_later(
        self,
        tmp_path: Path,
        convert: Callable[[int], str],
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        def fail(url: str) -> None:
            raise PermissionError(url)

        register_delete_dir_handler(fail)
        urls = [convert(day) for day in range(3)]
        assert "could not remove the replaced copy" in caplog.text
        register_delete_dir_handler(None)
        urls.append(convert(3))
        assert copies_in(tmp_path) == urls[2:]


class TestRenewed:
    """Marker files that show that a process is alive."""

    def test_marker_file_is_renewed_while_its_object_exists(self, tmp_path: Path) -> None:
        url = write_copy(tmp_path, 1)
        set_age(url, 1_000)
        location = Location.of(url)
        assert not renewed.is_alive(location, "_mdstorm")
        use = Renewed(url, "_mdstorm")
        renewed.renew_all()
        assert renewed.is_alive(location, "_mdstorm")
        set_age(url, 1_000)
        del use
        renewed.renew_all()
        assert not renewed.is_alive(location, "_mdstorm")

    def test_renewal_does_not_create_a_missing_marker_file(self, tmp_path: Path) -> None:
        use = Renewed(tmp_path.as_uri(), "_mdstorm")
        use.renew()
        assert list(tmp_path.iterdir()) == []
