from pathlib import Path

import numpy as np
import pytest
from tests.mds_backend.foreign import URL, foreign_shard, shard_bytes, shard_info, variable
from tests.mds_backend.small_datasets import array_of, write_dataset

from mdstorm_backend.errors import CorruptDatasetError, UnsupportedEncodingError
from mdstorm_backend.format.layout import Validity
from mdstorm_backend.format.values.batch import as_arrow
from mdstorm_backend.read.mds_shard import MDSShard


def test_columns_that_cannot_be_decoded_are_stepped_over() -> None:
    samples = [
        b"\x05\0\0\0\x02\0\0\0" + b"\x01" + b"photo" + b"hi",
        b"\x00\0\0\0\x01\0\0\0" + b"\x02" + b"" + b"!",
    ]
    shard = foreign_shard(samples, {"a": ("int8", 1), "b": ("webp", None), "c": ("str", None)})
    batch = shard.read(np.arange(2), ["c", "a"])
    assert as_arrow(batch["c"]).to_pylist() == ["hi", "!"]
    assert as_arrow(batch["a"]).to_pylist() == [1, 2]
    with pytest.raises(UnsupportedEncodingError, match="column 'b' has encoding 'webp'"):
        shard.read(np.arange(2), ["a", "b"])


def test_a_shard_without_samples_is_read() -> None:
    for encodings in ({"a": ("int8", 1)}, {"a": ("str", None)}):
        shard = foreign_shard([], encodings)  # type: ignore[arg-type]
        assert shard.num_samples == 0
        assert len(shard.read(np.empty(0, np.int64), ["a"])["a"]) == 0


def test_samples_of_another_size_than_the_index_says_are_refused() -> None:
    with pytest.raises(CorruptDatasetError, match=r"samples of 1 bytes .* 3 bytes of samples"):
        foreign_shard([b"\x01", b"\x02\x03"], {"a": ("int8", 1)})


@pytest.mark.parametrize("count", [0, 1, 3, 1000])
def test_a_bitmap_of_other_elements_than_there_are_is_refused(tmp_path: Path, count: int) -> None:
    dataset = write_dataset(tmp_path, {"a": [[1], [None]], "b": ["x", "y"]},
                            {"a": array_of("short"), "b": "string"})  # fmt: skip
    content = shard_bytes(
        [variable(b"\x04\x01\x01\x00", b"x"), variable(b"\x04\x01\x00\x00", b"y")]
    )
    info = shard_info(content, {"a": ("ndarray:int16", None), "b": ("str", None)}, 2, "x.mds")
    shard = MDSShard(content, info, dataset.schema, url=URL)
    shard.validity = Validity({}, {"a": np.ones(count, np.bool_)})
    for _ in range(2):
        with pytest.raises(CorruptDatasetError, match=f"null bitmap of {count} elements"):
            shard.read(np.array([1]), ["a"])
    shard.validity = Validity({}, {"a": np.array([True, False])})
    assert as_arrow(shard.read(np.array([1]), ["a"])["a"]).to_pylist() == [[None]]
