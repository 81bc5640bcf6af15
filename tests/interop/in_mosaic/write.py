"""Writes datasets with MosaicML Streaming and prints what it reads back of the first as JSON.

    write.py OUT_DIR COMPRESSION…

One dataset per compression (``none`` for none), in a directory of its name.
"""

from __future__ import annotations

import io
import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from describe import describe_samples
from PIL import Image
from streaming import LocalDataset, MDSWriter

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
    "table": "ndarray:float32",
    "a pickle": "pkl",
    "any ndarray": "ndarray",
    "str_int": "str_int",
    "str_float": "str_float",
    "pil": "pil",
    "jpeg": "jpeg",
    "png": "png",
    "jpeg_array": "jpeg_array",
    "jpegarray": "jpegarray",
    "pils": "list[pil]",
    "jpegs": "list[jpeg]",
    "pngs": "list[png]",
}


def picture(mode: str, i: int) -> Image.Image:
    width, height = 8 + i % 3, 8
    y, x = np.mgrid[:height, :width]
    pixels = np.stack([x * 9 + i, y * 7, 255 - x * 5], -1).astype("uint8")
    return Image.fromarray(pixels).convert(mode)


def jpeg(i: int) -> bytes:
    stream = io.BytesIO()
    picture("RGB", i).save(stream, "JPEG")
    return stream.getvalue()


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
        "table": np.arange(6, dtype="float32").reshape([(2, 3), (6,), (1, 3, 2)][i % 3]),
        "a pickle": {"i": i},
        "any ndarray": np.ones((i % 3 + 1, 2), NUMBERS[i % len(NUMBERS)]),
        "str_int": (i - 20) * 10 ** (i % 30),
        "str_float": [i / 7, float("inf"), -0.0][i % 3],
        "pil": picture(["L", "RGB", "RGBA", "CMYK", "1", "F"][i % 6], i),
        "jpeg": picture(["L", "RGB", "CMYK"][i % 3], i),
        "png": picture(["L", "RGB", "RGBA", "P", "1"][i % 5], i),
        "jpeg_array": [jpeg(n) for n in range(i % 3 + 1)],
        "jpegarray": [jpeg(i)],
        "pils": [picture("L", n) for n in range(i % 3)],
        "jpegs": [picture("RGB", n) for n in range(i % 3)],
        "pngs": [picture("RGBA", n) for n in range(i % 3)],
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
            size_limit=40_000,
        ) as writer:
            for value in samples:
                writer.write(value)
    print(json.dumps(describe_samples(LocalDataset(str(Path(out, compressions[0]))))))


main()
