"""Reading speed of mdstorm and alternative libraries for a table, images and tokens.

    python measure_peers.py LIBRARY FOLDER

FOLDER contains the Parquet files written by `run_peers.py`. Each library first converts them to its
own format. Each function's docstring describes how its library is used, and appears on the page
that `page.py` writes.
"""

from __future__ import annotations

import io
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from functools import partial
from importlib.metadata import version
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from measuring import emit, pillow_alone, rows_per_cpu_second, with_version
from samples import IMAGE_SIDE, images, pictures
from sizes import size

#: Rows of a pass: so many that its beginning hardly counts.
ROWS = {
    "numbers": size(1_000_000, 3_000),
    "images": size(4_096, 8),
    "pngs": size(2_048, 8),
    "tokens": size(50_000, 300),
}
#: The data that are images, and their encoding.
ENCODINGS = {"images": "jpeg", "pngs": "png"}
TOKENS = 2048
BUFFER_ROWS = 10_000
RAY_FILES = 4

Batches = Callable[[], Iterable[Any]]


class Task(NamedTuple):
    """A task: one of the files, and how to read it."""

    title: str
    data: str
    batch_size: int
    shuffle: bool = False
    #: Whether all libraries decode images with simplejpeg instead of Pillow.
    turbo: bool = False
    #: Whether libraries whose tensors are views copy them, as the others do anyway.
    copies: bool = False

    @property
    def options(self) -> dict[str, bool]:
        """Options of `tensors`."""
        return {"turbo": self.turbo, "copies": self.copies}


TASKS = {
    "in_order": Task("26 float32 columns, in order", "numbers", 1024),
    "shuffled": Task("26 float32 columns, shuffled", "numbers", 1024, shuffle=True),
    "images": Task(f"JPEG images of 224 by 224, {with_version('Pillow')}", "images", 64),
    "images_turbo": Task(
        f"JPEG images of 224 by 224, {with_version('simplejpeg')}", "images", 64, turbo=True
    ),
    "pngs": Task(
        f"PNG images of 224 by 224, mdstorm's decoder or {with_version('Pillow')}", "pngs", 64
    ),
    "tokens": Task("sequences of 2,048 uint16 tokens", "tokens", 64),
    "tokens_copied": Task(
        "the same tokens, as tensors that can be written to", "tokens", 64, copies=True
    ),
}


#: An additional measurement for shuffled tasks: elapsed seconds from the last batch of an epoch to
#: the first batch of the next.
BORDER = "border_s"
BORDER_TITLE = "from one epoch to the next, shuffled, elapsed time"
BORDERS = size(5, 1)


def write_data(folder: Path) -> None:
    """Write the data as Parquet files."""
    rng = np.random.default_rng(0)
    numbers = {f"n{i:02}": rng.random(ROWS["numbers"], np.float32) for i in range(26)}
    tokens = rng.integers(0, 50_000, ROWS["tokens"] * TOKENS, np.uint16)
    tables = {
        "numbers": pa.table(numbers),
        "images": pa.table(
            {"images": [sample["image"] for sample in islice(cycle(images()), ROWS["images"])]}
        ),
        "pngs": pa.table({"pngs": list(islice(cycle(pngs()), ROWS["pngs"]))}),
        "tokens": pa.table({"tokens": pa.FixedSizeListArray.from_arrays(tokens, TOKENS)}),
    }
    for data, table in tables.items():
        pq.write_table(table, folder / f"{data}.parquet")


def pngs() -> Iterator[bytes]:
    """Yield the pictures as PNG files, as Petastorm's image codec writes them."""
    from mdstorm.codecs import CompressedImageCodec
    from mdstorm.unischema import UnischemaField

    codec = CompressedImageCodec("png")
    field = UnischemaField("image", np.uint8, (IMAGE_SIDE, IMAGE_SIDE, 3), codec, False)
    for picture in pictures():
        yield bytes(codec.encode(field, picture))


def stored(folder: Path, data: str) -> pa.Table:
    return pq.read_table(folder / f"{data}.parquet")


def samples_of(folder: Path, data: str) -> Iterator[Any]:
    """Yield rows one by one: an array of 26 numbers, an array of tokens, or an image's bytes."""
    table = stored(folder, data)
    if data in ENCODINGS:
        yield from table[data].to_pylist()
    else:
        columns = [column.numpy() for column in tensors(table).values()]
        yield from columns[0] if data == "tokens" else np.stack(columns, axis=1)


def pixels(image: bytes, turbo: bool) -> Any:
    """Decode an image with simplejpeg or Pillow."""
    if turbo:
        import simplejpeg

        return simplejpeg.decode_jpeg(image)
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(image)))


def decoded(batch: list[bytes], turbo: bool = False) -> Any:
    """Decode images of equal size into one tensor."""
    import torch

    return torch.from_numpy(np.stack([pixels(image, turbo) for image in batch]))


def tensors(
    batch: pa.Table | pa.RecordBatch, turbo: bool = False, copies: bool = False, **_: Any
) -> dict[str, Any]:
    """Convert Arrow columns to tensors: numbers as views, or copies of them, images decoded."""
    import torch

    made: dict[str, Any] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_binary(column.type):
            made[name] = decoded(column.to_pylist(), turbo)
        elif pa.types.is_fixed_size_list(column.type):
            values = pc.list_flatten(column).to_numpy()
            made[name] = torch.from_numpy(values).reshape(len(column), -1)
        else:
            made[name] = torch.from_numpy(column.to_numpy())
    if copies:  # by NumPy: PyTorch's threads would be counted while they wait for each other
        return {name: torch.from_numpy(values.numpy().copy()) for name, values in made.items()}
    return made


def mdstorm(folder: Path, task: Task) -> Batches:
    """`StreamingDataLoader`, shuffled over the whole epoch, with `decode=` for images."""
    from mdstorm import convert
    from mdstorm_backend import MDSWriter, StreamingDataLoader, StreamingDataset

    out = folder / "mdstorm" / task.data
    if not out.exists() and task.data == "numbers":
        convert(folder / "numbers.parquet", out)
    elif not out.exists():
        encoding = ENCODINGS.get(task.data, f"ndarray:uint16:{TOKENS}")
        with MDSWriter(out=str(out), columns={task.data: encoding}) as writer:
            for sample in samples_of(folder, task.data):
                writer.write({task.data: sample})
    decode = task.data if task.data in ENCODINGS else None
    dataset = StreamingDataset(
        local=str(out), batch_size=task.batch_size, shuffle=task.shuffle, decode=decode
    )
    return lambda: StreamingDataLoader(dataset, batch_size=task.batch_size)


def litdata(folder: Path, task: Task) -> Batches:
    """`optimize` writes one array per row, in chunks of 64 MB; `TokensLoader` reads tokens.

    `shuffle=True` shuffles the order of chunks, and of rows within windows of 256.
    """
    from litdata import StreamingDataLoader, StreamingDataset, TokensLoader, optimize

    out = str(folder / "litdata" / task.data)
    tokens = TokensLoader(block_size=TOKENS) if task.data == "tokens" else None
    if not Path(out).exists():
        write = partial(litdata_samples, folder)
        optimize(write, [task.data], out, num_workers=1, chunk_bytes="64MB", item_loader=tokens)

    dataset = StreamingDataset(out, shuffle=task.shuffle, item_loader=tokens)
    options: dict[str, Any] = {}
    if task.data in ENCODINGS:
        options["collate_fn"] = partial(decoded, turbo=task.turbo)
    return lambda: StreamingDataLoader(dataset, batch_size=task.batch_size, **options)


def litdata_samples(folder: Path, data: str) -> Iterator[Any]:
    """Yield samples, with tokens as tensors; litData calls this in the process that writes them."""
    import torch

    for sample in samples_of(folder, data):
        yield torch.from_numpy(sample.copy()) if data == "tokens" else sample


def datasets(folder: Path, task: Task) -> Batches:
    """`with_format("arrow")`: tensors are views of the mapped file, which cannot be written to.

    With `with_format("torch")`, tables are read at a fortieth of this speed. Shuffled by
    `to_iterable_dataset(num_shards=8).shuffle(buffer_size=10_000)`.
    """
    from datasets import load_dataset

    file = str(folder / f"{task.data}.parquet")
    found = load_dataset("parquet", data_files=file, split="train").with_format("arrow")
    if task.shuffle:
        streamed = found.to_iterable_dataset(num_shards=8).with_format("arrow")
        found = streamed.shuffle(seed=0, buffer_size=BUFFER_ROWS)
    return lambda: map(partial(tensors, **task.options), found.iter(task.batch_size))


def webdataset(folder: Path, task: Task) -> Batches:
    """A tar file of `.jpeg`, `.png` or `.npy` files, read by `decode`, `to_tuple` and `batched`.

    It has no format for tables: each row would be a file in the tar file, ten times as large.
    """
    from webdataset import TarWriter, WebDataset

    out = str(folder / f"{task.data}.tar")
    kind = ENCODINGS.get(task.data, "npy")
    if not Path(out).exists():
        with TarWriter(out) as writer:
            for number, sample in enumerate(samples_of(folder, task.data)):
                writer.write({"__key__": f"{number:06}", kind: sample})
    decoder = turbo_image if task.turbo else "rgb8"
    found = WebDataset(out, shardshuffle=False).decode(decoder).to_tuple(kind)
    return lambda: found.batched(task.batch_size)


def turbo_image(key: str, image: bytes) -> Any:
    """Decode a JPEG member of a tar file, for WebDataset."""
    return pixels(image, turbo=True) if key.endswith("jpeg") else None


def lance(folder: Path, task: Task) -> Batches:
    """`lance.torch.data.LanceDataset`, whose tensors are views that cannot be written to.

    Shuffled by `ShardedBatchSampler`, which shuffles the order of batches, not their rows.
    """
    from lance import write_dataset
    from lance.sampler import ShardedBatchSampler
    from lance.torch.data import LanceDataset

    out = str(folder / f"{task.data}.lance")
    if not Path(out).exists():
        write_dataset(stored(folder, task.data), out)
    sampler = ShardedBatchSampler(0, 1, randomize=True) if task.shuffle else None
    return lambda: LanceDataset(
        out,
        task.batch_size,
        batch_readahead=4,
        sampler=sampler,
        to_tensor_fn=partial(tensors, **task.options),
    )


def ray(folder: Path, task: Task) -> Batches:
    """`read_parquet`, and `iter_batches` of Arrow tables, shuffled by a buffer of 10,000 rows.

    Ray starts processes for each epoch, which takes the time in the last row of the table.
    """
    import ray

    start = partial(ray.init, num_cpus=2, include_dashboard=False, log_to_driver=False)
    if not ray.is_initialized():
        try:
            start()
        except Exception:  # Ray's 30 s limit for starting processes is too short on a busy machine
            ray.shutdown()
            start()
    out = folder / "ray" / task.data
    if not out.exists():
        out.mkdir(parents=True)
        for number in range(RAY_FILES):
            (out / f"{number}.parquet").hardlink_to(folder / f"{task.data}.parquet")
    found = ray.data.read_parquet(str(out))
    options: dict[str, Any] = {"batch_size": task.batch_size, "batch_format": "pyarrow"}
    if task.shuffle:
        options["local_shuffle_buffer_size"] = BUFFER_ROWS
    return lambda: map(partial(tensors, **task.options), found.iter_batches(**options))


#: The usual name of each library, its package, and the function that reads with it.
LIBRARIES: dict[str, tuple[str, str, Callable[[Path, Task], Batches]]] = {
    "mdstorm": ("mdstorm", "mdstorm", mdstorm),
    "litdata": ("litData", "litdata", litdata),
    "datasets": ("Hugging Face datasets", "datasets", datasets),
    "webdataset": ("WebDataset", "webdataset", webdataset),
    "lance": ("Lance", "pylance", lance),
    "ray": ("Ray Data", "ray", ray),
}


def rows_of(batch: Any) -> int:
    """Return the number of rows in a batch, which is a dict, a tuple or a single tensor."""
    parts = list(batch.values()) if isinstance(batch, dict) else batch
    return len(parts[0] if isinstance(parts, tuple | list) else parts)


def border(read: Batches) -> float:
    """Return the median seconds from the last batch of an epoch to the first of the next."""
    gaps = []
    last = 0.0
    for epoch in range(BORDERS + 1):
        for number, _ in enumerate(read()):
            now = time.perf_counter()
            if number == 0 and epoch:
                gaps.append(now - last)
            last = now
    return statistics.median(gaps)


def main() -> None:
    library, folder = sys.argv[1], Path(sys.argv[2])
    name, package, batches_of = LIBRARIES[library]
    figures = {}
    for key, task in TASKS.items():
        if library != "webdataset" or task.data != "numbers":
            alone = pillow_alone() if library == "mdstorm" and not task.turbo else nullcontext()
            rows = ROWS[task.data] * (RAY_FILES if library == "ray" else 1)
            with alone:
                read = batches_of(folder, task)
                figures[key] = rows_per_cpu_second(read, rows_of, rows)
            if task.shuffle:
                figures[BORDER] = border(read)
    setting = " ".join((batches_of.__doc__ or "").split())
    emit({"name": name, "version": version(package), "setting": setting, **figures})


if __name__ == "__main__":
    main()
