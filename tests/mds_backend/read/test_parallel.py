from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mdstorm_backend.read.parallel import decode_pixels, map_in_threads


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("count", [0, 1, 2, 100])
def test_results_come_in_the_order_of_the_items(workers: int, count: int) -> None:
    assert map_in_threads(str, range(count), workers) == [str(n) for n in range(count)]


def test_an_error_in_a_thread_is_an_error_here() -> None:
    with pytest.raises(ZeroDivisionError):
        map_in_threads(lambda n: 1 // n, [1, 0, 1], 2)


def decode(value: bytes, place: np.ndarray | None) -> np.ndarray:
    """Decode pixels of one row: the value itself, into the place if that fits."""
    pixels = np.frombuffer(value, np.uint8)[None]
    if place is None or place.shape != pixels.shape:
        return pixels.copy()
    place[:] = pixels
    return place


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("values", [[b"ab", b"c", b"de"], [b"c", b"ab", b"ab"], [None, b"a"]])
def test_images_of_several_shapes_are_objects(workers: int, values: list[Any]) -> None:
    found = decode_pixels(decode, values, workers)
    assert found.dtype == object
    assert [None if p is None else p.tobytes() for p in found] == values
    assert all(pixels is None or pixels.flags.owndata for pixels in found)


def test_memory_is_not_asked_for_on_the_word_of_one_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mdstorm_backend.read.parallel._MAX_STACK_BYTES", 5)
    found = decode_pixels(decode, [b"ab", b"cd", b"ef"], 2)
    assert [pixels.tobytes() for pixels in found] == [b"ab", b"cd", b"ef"]
