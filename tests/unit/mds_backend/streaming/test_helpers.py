"""Functions and classes that programs import from the modules of `streaming.base`."""

import logging
import os
from pathlib import Path
from typing import Any

import fsspec
import pytest
from pyspark.sql import types as T  # noqa: N812

from mdstorm_backend.errors import DatasetExistsError, UnsupportedURLError
from mdstorm_backend.streaming.base import distributed, util
from mdstorm_backend.streaming.base.compression import Gzip, Snappy, decompress
from mdstorm_backend.streaming.base.converters import infer_dataframe_schema
from mdstorm_backend.streaming.base.storage import (
    CloudDownloader,
    CloudUploader,
    LocalUploader,
    download_file,
)
from mdstorm_backend.streaming.base.util import (
    bytes_to_int,
    number_abbrev_to_int,
    retry,
)
from mdstorm_backend.streaming.base.world import World


class Frame:
    """The DataFrame attributes used by the functions."""

    def __init__(self, **types: T.DataType) -> None:
        self.schema = T.StructType([T.StructField(n, t) for n, t in types.items()])


def test_method_each_of_a_compression_class_yields_every_level() -> None:
    for name, compression in Gzip.each():
        assert decompress(name, compression.compress(b"acorns")) == b"acorns"
    assert [name for name, _ in Gzip.each()] == ["gz", *(f"gz:{level}" for level in range(10))]
    assert [name for name, _ in Snappy.each()] == ["snappy"]


def test_encodings_are_inferred_from_a_frame() -> None:
    frame: Any = Frame(
        id=T.LongType(), price=T.DecimalType(8, 2), tokens=T.ArrayType(T.IntegerType())
    )
    expected = {"id": "int64", "price": "str_decimal", "tokens": "ndarray:int32"}
    assert infer_dataframe_schema(frame) == expected
    assert infer_dataframe_schema(frame, {"id": "int64"}) is None


def test_frame_with_unsupported_columns_raises_value_error() -> None:
    frame: Any = Frame(text=T.StringType(), odd=T.NullType())
    for columns, message in (
        ({"no": "int64"}, "'no' is not a column of input dataframe"),
        ({"text": "int64"}, "Mismatched types"),
        (None, "not supported by dataframe_to_mds"),
    ):
        with pytest.raises(ValueError, match=message):
            infer_dataframe_schema(frame, columns)


@pytest.mark.parametrize("convert", [bytes_to_int, number_abbrev_to_int])
@pytest.mark.parametrize("text", ["", "12kbb", "k", "p 64", "inf k"])
def test_string_that_is_not_a_size_raises_value_error(convert: object, text: str) -> None:
    with pytest.raises(ValueError, match="Unsupported value/suffix"):
        convert(text)  # type: ignore[operator]


def test_retry_repeats_calls_that_raise_the_given_errors() -> None:
    raised = [OSError("first"), KeyError("second"), OSError("third"), ValueError("fourth")]
    cleaned = []

    @retry([OSError, KeyError], lambda: cleaned.append(1), 2, 0.001, 0.001)
    def fails() -> None:
        """Raise the next error."""
        raise raised.pop(0)

    with pytest.raises(KeyError, match="second"):
        fails()
    assert (len(raised), len(cleaned), fails.__doc__) == (2, 2, "Raise the next error.")
    with pytest.raises(ValueError, match="fourth"):
        fails()
    assert retry(lambda: 42)() == 42
    assert retry(num_attempts=1)(lambda: 43)() == 43
    with pytest.raises(ValueError, match="num_attempts must be at-least 1"):
        retry(num_attempts=0)


def test_clean_stale_shared_memory_logs_once_and_does_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    util.clean_stale_shared_memory.cache_clear()  # type: ignore[attr-defined]
    with caplog.at_level(logging.DEBUG):
        util.clean_stale_shared_memory()
        util.clean_stale_shared_memory()
    assert [record.levelname for record in caplog.records] == ["DEBUG"]
    assert "uses no shared memory" in caplog.text


def test_world_is_detected_from_the_launchers_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {"RANK": 5, "WORLD_SIZE": 8, "LOCAL_WORLD_SIZE": 4, "LOCAL_RANK": 1}
    for name, value in variables.items():
        monkeypatch.setenv(name, str(value))
    world = World.detect()
    assert (world.rank, world.num_nodes, world.rank_of_node) == (5, 2, 1)
    assert distributed.get_local_rank() == 1


@pytest.mark.parametrize(
    "variables", [{"RANK": "0", "WORLD_SIZE": "2"}, {"WORLD_SIZE": "2"}], ids=" ".join
)
def test_all_gather_object_without_a_process_group_raises_error(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert distributed.all_gather_object(5) == [5]
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(RuntimeError, match="no process group"):
        distributed.all_gather_object(5)


def local_file(folder: Path, text: str = "kept") -> Path:
    path = folder / "deep" / "notes.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize("keep_local", [False, True])
def test_uploaded_file_can_be_downloaded(keep_local: bool, tmp_path: Path) -> None:
    path = local_file(tmp_path / "local")
    url = f"memory://bucket/{tmp_path.name}"
    uploader = CloudUploader.get((str(tmp_path / "local"), url), keep_local, exist_ok=True)
    uploader.upload_file("deep/notes.txt")
    assert path.exists() == keep_local
    assert uploader.list_objects() == [f"{tmp_path.name}/deep/notes.txt"]
    download_file(f"{url}/deep/notes.txt", str(tmp_path / "back" / "copy.txt"))
    assert (tmp_path / "back" / "copy.txt").read_text() == "kept"
    assert os.listdir(tmp_path / "back") == ["copy.txt"]
    fsspec.filesystem("memory").rm(f"bucket/{tmp_path.name}", recursive=True)


def test_local_uploader_without_remote_keeps_files_in_place(tmp_path: Path) -> None:
    path = local_file(tmp_path)
    uploader = LocalUploader(str(tmp_path), exist_ok=True)
    uploader.upload_file("deep/notes.txt")
    assert (uploader.local, uploader.remote) == (str(tmp_path), None)
    assert uploader.list_objects() == [str(path)]
    assert uploader.list_objects("no") == []


def test_local_directory_with_files_raises_error(tmp_path: Path) -> None:
    local_file(tmp_path)
    with pytest.raises(DatasetExistsError, match="Directory is not empty") as caught:
        CloudUploader.get(str(tmp_path))
    assert isinstance(caught.value, FileExistsError)


@pytest.mark.parametrize("out", [(), ("a", "b", "c"), ("a", None), None, 7])
def test_uploader_with_invalid_out_raises_value_error(out: Any) -> None:
    with pytest.raises(ValueError, match="Invalid `out` argument"):
        CloudUploader.get(out)


def test_download_keeps_an_existing_file_and_removes_a_partial_file(
    tmp_path: Path,
) -> None:
    copy = local_file(tmp_path, "first")
    CloudDownloader.direct_download("memory://bucket/absent", str(copy))
    assert copy.read_text() == "first"
    with pytest.raises(FileNotFoundError):
        download_file(str(tmp_path / "absent"), str(tmp_path / "to" / "copy"))
    assert os.listdir(tmp_path / "to") == []
    with pytest.raises(ValueError, match="path to remote dataset must be provided"):
        CloudDownloader.direct_download(None, str(tmp_path / "copy"))


def test_unknown_scheme_raises_unsupported_url_error(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedURLError, match="noscheme"):
        CloudDownloader.get("noscheme://x")
    with pytest.raises(UnsupportedURLError, match=r"Invalid Cloud provider prefix.*noscheme"):
        CloudUploader.get((str(tmp_path), "noscheme://x"))
