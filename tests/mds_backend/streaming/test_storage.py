"""`streaming.base.storage`: single files."""

import os
from pathlib import Path
from typing import Any

import fsspec
import pytest

from mdstorm_backend.errors import DatasetExistsError, UnsupportedURLError
from mdstorm_backend.streaming.base.storage import (
    CloudDownloader,
    CloudUploader,
    LocalUploader,
    download_file,
)


def local_file(folder: Path, text: str = "kept") -> Path:
    path = folder / "deep" / "notes.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize("keep_local", [False, True])
def test_a_file_goes_to_a_storage_and_comes_back(keep_local: bool, tmp_path: Path) -> None:
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


def test_a_local_uploader_without_a_remote_keeps_files_where_they_are(tmp_path: Path) -> None:
    path = local_file(tmp_path)
    uploader = LocalUploader(str(tmp_path), exist_ok=True)
    uploader.upload_file("deep/notes.txt")
    assert (uploader.local, uploader.remote) == (str(tmp_path), None)
    assert uploader.list_objects() == [str(path)]
    assert uploader.list_objects("no") == []


def test_a_local_directory_with_files_is_refused(tmp_path: Path) -> None:
    local_file(tmp_path)
    with pytest.raises(DatasetExistsError, match="Directory is not empty") as caught:
        CloudUploader.get(str(tmp_path))
    assert isinstance(caught.value, FileExistsError)


@pytest.mark.parametrize("out", [(), ("a", "b", "c"), ("a", None), None, 7])
def test_what_is_no_place_is_refused(out: Any) -> None:
    with pytest.raises(ValueError, match="Invalid `out` argument"):
        CloudUploader.get(out)


def test_a_copy_that_is_there_is_not_replaced(tmp_path: Path) -> None:
    copy = local_file(tmp_path, "first")
    CloudDownloader.direct_download("memory://bucket/absent", str(copy))
    assert copy.read_text() == "first"


def test_a_file_that_is_not_there_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        download_file(str(tmp_path / "absent"), str(tmp_path / "to" / "copy"))
    assert os.listdir(tmp_path / "to") == []


def test_no_copy_and_no_url(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="path to remote dataset must be provided"):
        CloudDownloader.direct_download(None, str(tmp_path / "copy"))


def test_a_scheme_that_nobody_knows(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedURLError, match="noscheme"):
        CloudDownloader.get("noscheme://x")
    with pytest.raises(UnsupportedURLError, match=r"Invalid Cloud provider prefix.*noscheme"):
        CloudUploader.get((str(tmp_path), "noscheme://x"))
