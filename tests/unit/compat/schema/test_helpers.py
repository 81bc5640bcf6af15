"""Helpers for user programs: row decoding, dataset paths and file systems."""

import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import numpy as np
import pytest

from mdstorm.codecs import NdarrayCodec
from mdstorm.errors import DecodeFieldError
from mdstorm.fs_utils import FilesystemResolver, get_dataset_path, get_filesystem_and_path_or_paths
from mdstorm.unischema import Unischema, UnischemaField
from mdstorm.utils import decode_row
from mdstorm_backend.errors import NameNodeError

SCHEMA = Unischema(
    "S",
    [
        UnischemaField("id", np.int16, ()),
        UnischemaField("vec", np.float32, (2,), NdarrayCodec(), True),
        UnischemaField("list", np.int32, (None,), None, True),
        UnischemaField("price", Decimal, (), None, True),
        UnischemaField("python", int, (), None, True),
    ],
)


def test_decode_row_decodes_all_fields() -> None:
    vec = np.array([1, 2], np.float32)
    stored = {
        "id": 5,
        "vec": NdarrayCodec().encode(SCHEMA.vec, vec),
        "list": [1, 2],
        "price": "1.50",
        "python": 3,
        "other": 4,
    }
    row = decode_row(stored, SCHEMA)
    assert list(row) == ["id", "vec", "list", "price", "python"]
    assert (row["id"], type(row["id"])) == (5, np.int16)
    assert row["vec"].tolist() == [1, 2]
    assert (row["list"].tolist(), row["list"].dtype) == ([1, 2], np.int32)
    assert (row["price"], row["python"]) == (Decimal("1.50"), 3)
    assert decode_row({"vec": None, "id": None}, SCHEMA) == {"vec": None, "id": None}


@pytest.mark.parametrize("row", [{"vec": b"xx"}, {"id": "zz"}, {"price": "zz"}])
def test_decoding_error_names_the_field(row: dict[str, Any]) -> None:
    (name,) = row
    with pytest.raises(DecodeFieldError, match=f'Decoding field "{name}" failed') as caught:
        decode_row(row, SCHEMA)
    assert isinstance(caught.value, RuntimeError)


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("file:///a/b", "/a/b"),
        ("hdfs://namenode:8020/a", "/a"),
        ("s3://bucket/a/b", "bucket/a/b"),
        ("gs://bucket/a", "bucket/a"),
    ],
)
def test_object_store_paths_begin_with_the_bucket(url: str, path: str) -> None:
    assert get_dataset_path(urlparse(url)) == path


def test_hdfs_url_without_name_node_raises_error_immediately() -> None:
    with pytest.raises(NameNodeError, match="it does not name a name node"):
        FilesystemResolver("hdfs:///data")


def test_resolver_returns_file_system_for_url(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("content")
    resolver = FilesystemResolver(f"file://{tmp_path}/", hdfs_driver="libhdfs")
    assert resolver.get_dataset_path() == str(tmp_path)
    assert resolver.parsed_dataset_url().scheme == "file"
    assert resolver.filesystem().cat_file(f"{tmp_path}/a") == b"content"
    made = pickle.loads(pickle.dumps(resolver.filesystem_factory()))()  # noqa: S301  # our own
    assert made.exists(f"{tmp_path}/a")
    fs, path = get_filesystem_and_path_or_paths(f"file://{tmp_path}")
    assert (fs.exists(path), path) == (True, str(tmp_path))
    _, paths = get_filesystem_and_path_or_paths(["file:///a", "file:///b/"])
    assert paths == ["/a", "/b/"]
    pytest.importorskip("s3fs")
    options = {"endpoint_url": "http://127.0.0.1:9", "key": "a", "secret": "b"}
    far = FilesystemResolver("s3://bucket/a", storage_options=options)  # does not connect yet
    with pytest.raises(ConnectionError, match=r"127.0.0.1:9 cannot be reached"):
        far.filesystem()
    own = object()
    assert get_filesystem_and_path_or_paths("file:///a", filesystem=own) == (own, "/a")
