"""Writes datasets with MosaicML Streaming and prints what it wrote as JSON.

    write.py OUT_DIR COMPRESSION…

One dataset per compression (``none`` for none), in a directory of its name.
"""

from __future__ import annotations

import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from describe import describe_samples
from streaming import MDSWriter

SAMPLES = 40
NUMBERS = [
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *(f"float{bits}" for bits in (16, 32, 64)),
]
COLUMNS = {
    "int": "int",
    "str": "str",
    "bytes": "bytes",
    "json": "json",
    "str_decimal": "str_decimal",
    **{number: number for number in NUMBERS},
    **{f"fixed {number}": f"ndarray:{number}:3" for number in NUMBERS},
    **{f"ragged {number}": f"ndarray:{number}" for number in NUMBERS},
    "cube": "ndarray:int16:2,1,2",
    "long": "ndarray:uint8",
    # mdstorm does not decode these, and has to find the values behind them.
    "a pickle": "pkl",
    "any ndarray": "ndarray",
}


def sample(i: int) -> dict[str, Any]:
    return {
        "int": i - 20,
        "str": "é" * (i % 5),
        "bytes": bytes(range(i % 7)),
        "json": [None, {"a": [i, 0.5, True, "é"]}, "text", i][i % 4],
        "str_decimal": Decimal(i) / 8,
        **{number: np.dtype(number).type(3 * i) for number in NUMBERS},
        **{f"fixed {n}": np.array([0, i, 2 * i], n) for n in NUMBERS},
        **{f"ragged {n}": np.arange(1 + i % 4).astype(n) for n in NUMBERS},
        "cube": np.arange(4, dtype="int16").reshape(2, 1, 2) + i,
        "long": np.zeros(255 + i % 3, "uint8"),  # its length takes one byte, or two
        "a pickle": {"i": i},
        "any ndarray": np.ones((i % 3 + 1, 2)),
    }


def main() -> None:
    out, *compressions = sys.argv[1:]
    samples = [sample(i) for i in range(SAMPLES)]
    for compression in compressions:
        with MDSWriter(
            columns=COLUMNS,
            out=str(Path(out, compression)),
            compression=None if compression == "none" else compression,
            hashes=["sha1", "xxh64"],
            size_limit=8000,
        ) as writer:
            for value in samples:
                writer.write(value)
    print(json.dumps(describe_samples(samples)))


main()
