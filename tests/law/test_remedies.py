"""An argument that an error advises to pass removes the error, whatever reads the data.

Data with one defect, or with an argument that does not fit, are read by each loader. A message may
advise arguments with their values: each is passed, with those before, and none may be refused.
"""

import ast
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from PIL import Image

from mdstorm import make_batch_reader
from mdstorm.pytorch import DataLoader
from mdstorm.spark import SparkDatasetConverter
from mdstorm_backend import MDSWriter, StreamingDataLoader, StreamingDataset, open_dataset
from mdstorm_backend.errors import MDStormError

pytestmark = pytest.mark.filterwarnings("ignore")
ROWS, BATCH = 6, 3


def image(width: int = 2) -> bytes:
    file = BytesIO()
    Image.new("RGB", (width, 3)).save(file, "PNG")
    return file.getvalue()


GOOD: dict[str, list[Any]] = {
    "n": [*range(ROWS)],
    "x": [0.5] * ROWS,
    "text": ["word"] * ROWS,
    "image": [image()] * ROWS,
    "path": ["good.png"] * ROWS,
    "list": [[1, 2]] * ROWS,
}
TYPES = {"n": "int64", "x": "float64", "text": "str", "image": "bytes", "path": "str"}
TYPES["list"] = "ndarray:int64"
#: A column, what is in its fourth row, and arguments that all loaders take.
DEFECTS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "nothing": ("n", 3, {}),
    "null number": ("n", None, {}),
    "null float": ("x", None, {}),
    "null text": ("text", None, {}),
    "null list": ("list", None, {}),
    "list of another length": ("list", [1], {}),
    "null image": ("image", None, {"decode": "image"}),
    "no image": ("image", b"x", {"decode": "image"}),
    "empty image": ("image", b"", {"decode": "image"}),
    "wider image": ("image", image(5), {"decode": "image"}),
    "large image": ("image", image(999), {"decode": "image", "max_image_bytes": 99}),
    "null path": ("path", None, {"files": {"f": "path"}}),
    "null path of image": ("path", None, {"files": {"f": "path"}, "decode": "f"}),
    "file of no image": ("path", "bad.png", {"files": {"f": "path"}, "decode": "f"}),
    "file of wider image": ("path", "wide.png", {"files": {"f": "path"}, "decode": "f"}),
    "missing file": ("path", "none.png", {"files": {"f": "path"}}),
    "missing file of image": ("path", "none.png", {"files": {"f": "path"}, "decode": "f"}),
    "large file": ("path", "wide.png", {"files": {"f": "path"}, "max_file_bytes": 80}),
    "file elsewhere": ("path", "../out.png", {"files": {"f": "path"}}),
    "text as image": ("n", 3, {"decode": "text"}),
    "number as image": ("n", 3, {"decode": "n"}),
    "condition on unknown column": ("n", 3, {"where": [("m", "=", 1)]}),
    "condition on file": ("n", 3, {"files": {"f": "path"}, "where": [("f", "!=", None)]}),
    "files of unknown column": ("n", 3, {"files": {"f": "paths"}}),
    "files of numbers": ("n", 3, {"files": {"f": "n"}}),
    "files in used name": ("n", 3, {"files": {"x": "path"}}),
    "fill for file": ("path", None, {"files": {"f": "path"}, "fill_nulls": {"f": 0}}),
    "fill of text": ("n", None, {"fill_nulls": {"n": "0"}}),
    "fill out of range": ("n", None, {"fill_nulls": {"n": 0.5}}),
    "fill of unknown column": ("n", None, {"fill_nulls": {"m": 0}}),
    "mask of unknown column": ("n", None, {"null_masks": ["m"]}),
    "row numbers in used name": ("n", 3, {"row_numbers": "n"}),
    "size without image": ("n", 3, {"size": (4, 4)}),
    "wrong condition": ("n", 3, {"where": [("n", "==", None)]}),
    "condition in list": ("n", 3, {"where": [("text", "in", "word")]}),
}


def streamed(folder: Path, **options: Any) -> Iterator[Any]:
    dataset = StreamingDataset(local=str(folder), batch_size=BATCH, **options)
    return iter(StreamingDataLoader(dataset, batch_size=BATCH))


def samples(folder: Path, **options: Any) -> Iterator[Any]:
    return iter(StreamingDataset(local=str(folder), batch_size=BATCH, **options))


def converted(folder: Path, **options: Any) -> Iterator[Any]:
    dataset = open_dataset(str(folder))
    converter = SparkDatasetConverter(dataset.url, dataset.file_urls, ROWS)
    with converter.make_torch_dataloader(BATCH, num_epochs=1, **options) as loader:
        yield from loader


def read(folder: Path, **options: Any) -> Iterator[Any]:
    with make_batch_reader(folder.as_uri(), **options) as reader:
        yield from reader


def loaded(folder: Path, **options: Any) -> Iterator[Any]:
    with DataLoader(make_batch_reader(folder.as_uri(), **options), BATCH) as loader:
        yield from loader


LOADERS: dict[str, Callable[..., Iterator[Any]]] = {
    "StreamingDataLoader": streamed,
    "samples": samples,
    "make_torch_dataloader": converted,
    "make_batch_reader": read,
    "DataLoader": loaded,
}


def write(folder: Path, column: str, value: Any) -> Path:
    columns = {**GOOD, column: [*GOOD[column][:3], value, *GOOD[column][4:]]}
    types = {name: pa.array(GOOD[name]).type for name in TYPES}
    table = pa.table({name: pa.array(columns[name], types[name]) for name in TYPES})
    with MDSWriter(columns=TYPES, out=str(folder), size_limit=1 << 20) as writer:
        writer.write_batch(table)
    for name, content in {"good": image(), "bad": b"x", "wide": image(50)}.items():
        (folder / f"{name}.png").write_bytes(content)
    return folder


def failure(load: Callable[..., Iterator[Any]], folder: Path, options: dict[str, Any]) -> str:
    try:
        list(load(folder, **options))
    except MDStormError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def advised(message: str, given: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the arguments in a message that have literal values, but not those that were passed.

    Those within parentheses belong to another call, such as a method of data frames.
    """
    for found in re.finditer(r"(?<![\w.(])(\w+)=(?=[\[({'\"\w])", message):
        rest = message[found.end() :].partition("\n")[0]
        for stop in range(1, len(rest) + 1):
            with suppress(SyntaxError, ValueError):
                value = ast.literal_eval(rest[:stop])
                if not rest[stop : stop + 1].isalnum():
                    if given.get(found[1], ...) != value:
                        yield found[1], value
                    break


#: The loaders of the other programs share their steps with these.
FEW = ["StreamingDataLoader", "make_batch_reader"]
MANY = pytest.param([*LOADERS], marks=pytest.mark.long)


@pytest.mark.parametrize("loaders", [FEW, MANY], ids=["few", "all"])
@pytest.mark.parametrize("defect", DEFECTS)
def test_advised_argument_removes_the_error(
    defect: str, loaders: list[str], tmp_path: Path
) -> None:
    column, value, options = DEFECTS[defect]
    folder = write(tmp_path / "data", column, value)
    for name in loaders:
        load = LOADERS[name]
        for argument, advice in advised(failure(load, folder, options), options):
            if (name, argument) != ("samples", "on_corrupt"):  # single samples raise errors
                again = failure(load, folder, {**options, argument: advice})
                assert again == "", (name, argument, advice)
