"""What was computed for a dataset is kept, and mapped when it is wanted again."""

from pathlib import Path

import numpy as np
import pytest

from mdstorm_backend.cache import keep_file


@pytest.mark.parametrize("identity", ["", "é", "1234567", "with spaces"])
def test_kept_numbers_are_equal_aligned_and_shared(local: Path, identity: str) -> None:
    numbers = np.arange(1000)

    def kept(make: object) -> memoryview | bytes:
        return keep_file("url", "state", "a.bin", identity, make, directory=str(local))

    assert kept(lambda _: numbers.tobytes()) == numbers.tobytes()
    content = kept(None)
    assert isinstance(content, memoryview)  # a map, which processes share
    array = np.frombuffer(content, np.int64)
    assert array.flags.aligned
    np.testing.assert_array_equal(array, numbers)
