"""Read the header of a shard file."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from mdstorm_backend.errors import CorruptDatasetError
from mdstorm_backend.format.layout import parse_header_text
from mdstorm_backend.storage import Buffer


def num_samples(data: Buffer, *, url: str) -> int:
    """Samples of an uncompressed shard, by its first word.

    Raises
    ------
    CorruptDatasetError
        If its offsets do not fit into the file, do not ascend or do not end with it.
    """
    words = np.frombuffer(data, "<u4", min(len(data) // 4, 1))
    count = int(words[0]) if len(words) else 0
    if 4 * (count + 2) <= len(data):
        offsets = np.frombuffer(data, "<u4", count + 1, 4)
        if (
            offsets[0] >= 4 * (count + 2)
            and offsets[-1] == len(data)
            and bool((offsets[:-1] <= offsets[1:]).all())
        ):
            return count
    raise CorruptDatasetError(
        f"{url} of {len(data)} bytes does not start as a shard: it was cut off, or is something "
        "else. Copy it again, or write the dataset again",
        url=url,
    )


def read_header(data: Buffer, *, url: str) -> dict[str, Any]:
    """Header of an uncompressed shard; nothing in it has been checked.

    Raises
    ------
    CorruptDatasetError
        If there is none.
    """
    start = 4 * (num_samples(data, url=url) + 2)
    stop = int(np.frombuffer(data, "<u4", 1, 4)[0])
    return parse_header_text(bytes(data[start:stop]), url=url)


def shown_json(value: Any) -> str:
    """Return a short form of `value` for a message."""
    text = json.dumps(value)
    return text if len(text) <= 200 else text[:199] + "…"
