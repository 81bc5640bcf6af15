"""`streaming.base.util`: small helpers."""

import logging
from pathlib import Path

import pytest

from mdstorm_backend.streaming.base import util
from mdstorm_backend.streaming.base.util import (
    bytes_to_int,
    number_abbrev_to_int,
    retry,
    wait_for_file_to_exist,
)


def test_sizes_and_numbers_in_words() -> None:
    assert [bytes_to_int(text) for text in ("7", " 1.5 KB ", 2.9)] == [7, 1536, 2]
    assert [number_abbrev_to_int(text) for text in ("7", " 1.5 K ", 2.9)] == [7, 1500, 2]


@pytest.mark.parametrize("convert", [bytes_to_int, number_abbrev_to_int])
@pytest.mark.parametrize("text", ["", "12kbb", "k", "p 64", "inf k"])
def test_what_is_no_number_is_named(convert: object, text: str) -> None:
    with pytest.raises(ValueError, match="Unsupported value/suffix"):
        convert(text)  # type: ignore[operator]


def test_the_last_error_is_raised_after_all_attempts() -> None:
    errors = [OSError("first"), OSError("second"), OSError("third")]
    cleaned = []

    @retry([OSError, KeyError], lambda: cleaned.append(1), 2, 0.001, 0.001)
    def fails() -> None:
        raise errors.pop(0)

    with pytest.raises(OSError, match="second"):
        fails()
    assert (len(errors), len(cleaned)) == (1, 2)


def test_other_errors_are_not_tried_again() -> None:
    calls = []

    @retry(OSError, initial_backoff=0.001, max_jitter=0.001)
    def fails() -> None:
        calls.append(1)
        raise KeyError("x")

    with pytest.raises(KeyError):
        fails()
    assert len(calls) == 1


def test_the_decorator_works_without_parentheses() -> None:
    @retry
    def answer() -> int:
        """Answer."""
        return 42

    assert (answer(), answer.__doc__) == (42, "Answer.")
    with pytest.raises(ValueError, match="num_attempts must be at-least 1"):
        retry(num_attempts=0)


def test_waiting_for_a_file(tmp_path: Path) -> None:
    (tmp_path / "here").touch()
    wait_for_file_to_exist(str(tmp_path / "here"), 0.001, 1, "absent")
    with pytest.raises(RuntimeError, match=r"^absent 0\.010 < 0\.0"):
        wait_for_file_to_exist(str(tmp_path / "gone"), 0.001, 0.01, "absent")


def test_cleaning_shared_memory_says_once_that_there_is_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    util.clean_stale_shared_memory.cache_clear()  # type: ignore[attr-defined]
    with caplog.at_level(logging.DEBUG):
        util.clean_stale_shared_memory()
        util.clean_stale_shared_memory()
    assert [record.levelname for record in caplog.records] == ["DEBUG"]
    assert "uses no shared memory" in caplog.text
