"""Reading samples: blobs, ragged arrays, strings, images, single samples, many shards, and S3.

    python measure_samples.py LIBRARY FOLDER [URL]

LIBRARY is `mdstorm` or `mosaic`. Both run the same program; mainly the import differs. FOLDER
contains the datasets that `samples.py` writes. URL is the location of the dataset `stored` in an
object store.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import samples
import torch
from measuring import emit, pillow_alone, reading_speed
from sizes import size

LIBRARY = sys.argv[1]
OURS = LIBRARY == "mdstorm"
if OURS:
    from mdstorm_backend import StreamingDataLoader, StreamingDataset
else:
    from streaming import StreamingDataLoader, StreamingDataset

BATCH_SIZE = 256
WORKERS = 2
LOOKUPS = 20_000
LOOKUP_PASSES = size(5, 1)


def as_list(batch: list[Any]) -> Any:
    """Collate values that cannot be tensors."""
    return {name: [sample[name] for sample in batch] for name in batch[0]}


def as_arrays(batch: list[dict[str, Any]]) -> Any:
    """Decode and stack the images in a batch."""
    return {
        "image": torch.from_numpy(np.stack([np.asarray(sample["image"]) for sample in batch])),
        "label": torch.tensor([sample["label"] for sample in batch]),
    }


def open_loader(folder: str, collate: Callable[[list[Any]], Any], workers: int) -> Any:
    """Create the library's fastest loader. mdstorm does not need a collate function."""
    dataset = StreamingDataset(local=folder, batch_size=BATCH_SIZE)
    options: dict[str, Any] = {} if OURS else {"collate_fn": collate}
    return nullcontext(
        StreamingDataLoader(dataset, batch_size=BATCH_SIZE, num_workers=workers, **options)
    )


def rows_of(column: str) -> Callable[[Any], int]:
    """Return a function that counts the rows in a batch, using one of its columns."""
    return lambda batch: len(batch[column])


def loader_speed(folder: Path, column: str, rows: int) -> dict[str, Any]:
    """Measure a loader's rows per second; for Mosaic, the best with 0 or 2 worker processes."""
    speeds = [
        reading_speed(partial(open_loader, str(folder), as_list, workers), rows_of(column), rows)
        for workers in ([0] if OURS else [0, WORKERS])
    ]
    return max(speeds, key=lambda speed: speed["rows_per_s"])


def image_speed(folder: Path) -> dict[str, Any]:
    """Measure decoding JPEGs to arrays with two threads (mdstorm) or two processes (Mosaic)."""
    open_images = partial(open_loader, str(folder), as_arrays, 0 if OURS else WORKERS)
    return reading_speed(open_images, rows_of("image"), samples.IMAGES)


def image_speeds(folder: Path) -> dict[str, Any]:
    """Measure decoding with Pillow and, for mdstorm only, with simplejpeg, which it prefers."""
    if not OURS:
        return {"images": image_speed(folder)}
    with pillow_alone():
        pillow = image_speed(folder)
    return {"images": pillow, "images_turbo": image_speed(folder)}


def texts_to_arrow(folder: Path) -> dict[str, Any]:
    """Read strings: as Arrow batches with mdstorm, as lists with Mosaic's loader."""
    if OURS:
        from mdstorm_backend import open_dataset

        def batches() -> Any:
            return nullcontext(open_dataset(str(folder)).batches(BATCH_SIZE, format="arrow"))

        return reading_speed(batches, rows_of("text_0"), samples.TEXTS)
    return loader_speed(folder, "text_0", samples.TEXTS)


def lookup_speed(folder: Path) -> dict[str, Any]:
    """Look up samples by index in random order; return the speed of the fastest pass."""
    dataset = StreamingDataset(local=str(folder), batch_size=BATCH_SIZE)
    numbers = np.random.default_rng(0).permutation(len(dataset))[:LOOKUPS].tolist()
    seconds = []
    for _ in range(LOOKUP_PASSES):
        start = time.perf_counter()
        for number in numbers:
            dataset[number]
        seconds.append(time.perf_counter() - start)
    return {"rows_per_s": len(numbers) / min(seconds)}


def first_batch_seconds(folder: Path) -> float:
    """Measure the time from opening a dataset with many shards to its first batch."""
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        with open_loader(str(folder), as_list, 0) as loader:
            next(iter(loader))
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def remote_seconds(url: str) -> dict[str, float]:
    """Read a dataset from an object store into an empty cache, then again from the cache."""
    figures = {}
    with tempfile.TemporaryDirectory() as cache:
        for name in ("cold", "warm"):
            start = time.perf_counter()
            dataset = StreamingDataset(remote=url, local=cache, batch_size=BATCH_SIZE)
            options: dict[str, Any] = {} if OURS else {"collate_fn": as_list}
            loader = StreamingDataLoader(dataset, batch_size=BATCH_SIZE, **options)
            rows = sum(len(batch["blob"]) for batch in loader)
            figures[f"{name}_s"] = time.perf_counter() - start
            assert rows == samples.STORED
            del loader, dataset
    return figures


def main() -> None:
    folder = Path(sys.argv[2])
    figures: dict[str, Any] = {
        "blobs": loader_speed(folder / "blobs", "blob", samples.BLOBS),
        "ragged": loader_speed(folder / "ragged", "values", samples.RAGGED),
        "texts": texts_to_arrow(folder / "texts"),
        **image_speeds(folder / "images"),
        "lookup_blobs": lookup_speed(folder / "blobs"),
        "lookup_numbers": lookup_speed(folder / "numbers"),
        "first_batch_s": first_batch_seconds(folder / "small_shards"),
    }
    if len(sys.argv) > 3:
        figures["s3"] = remote_seconds(sys.argv[3])
    package = "mdstorm" if OURS else "mosaicml-streaming"
    emit({"library": LIBRARY, "version": version(package), **figures})


if __name__ == "__main__":
    main()
