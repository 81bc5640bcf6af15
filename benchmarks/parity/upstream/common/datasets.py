"""Datasets for the tests of MosaicML Streaming."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from streaming import MDSWriter


class SequenceDataset:
    """Samples that contain an id as text and a multiple of three."""

    def __init__(
        self, size: int = 100, column_names: Sequence[str] = ("id", "sample"), offset: int = 0
    ) -> None:
        self.column_encodings, self.column_sizes = ["str", "int"], [None, 8]
        self.size, self.column_names, self.offset = size, list(column_names), offset
        self._rest = iter(range(size))

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> dict[str, Any]:
        if index >= self.size:
            raise IndexError(f"{index} of {self.size}")
        key, value = self.column_names
        return {key: f"{index:06}", value: 3 * index + self.offset}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self

    def __next__(self) -> dict[str, Any]:
        return self[next(self._rest)]

    def get_sample_in_bytes(self, index: int) -> dict[str, bytes]:
        """Return a sample as MDS stores it."""
        key, value = self[index].values()
        names = self.column_names
        return {names[0]: key.encode(), names[1]: value.to_bytes(8, "little", signed=True)}


class NumberAndSayDataset:
    """Samples that contain a random number and its digits as words."""

    words = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")

    def __init__(
        self, size: int = 100, column_names: Sequence[str] = ("number", "words"), seed: int = 987
    ) -> None:
        self.column_encodings, self.column_sizes = ["int", "str"], [8, None]
        self.size, self.column_names, self.seed = size, list(column_names), seed
        self._random, self._rest = random.Random(seed), iter(range(size))

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self

    def __next__(self) -> dict[str, Any]:
        next(self._rest)
        number = self._random.randrange(10**8)
        words = " ".join(self.words[int(digit)] for digit in str(number))
        return dict(zip(self.column_names, (number, words), strict=True))


def write_mds_dataset(
    out_root: str, columns: dict[str, str], samples: Iterable[Any], size_limit: int, **options: Any
) -> None:
    """Write samples as MDS."""
    with MDSWriter(out=out_root, columns=columns, size_limit=size_limit, **options) as out:
        for sample in samples:
            out.write(sample)
