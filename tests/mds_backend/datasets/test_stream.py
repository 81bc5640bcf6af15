import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.mds_backend.small_datasets import write_numbers

from mdstorm_backend.datasets.open_streams import open_stream
from mdstorm_backend.datasets.stream import Stream
from mdstorm_backend.datasets.stream_files import StreamDefaults
from mdstorm_backend.elastic import StreamWeight
from mdstorm_backend.errors import ArgumentTypeError, DatasetNotFoundError, InvalidArgumentError
from mdstorm_backend.streaming.base.array import Array
from mdstorm_backend.streaming.base.spanner import Spanner


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"local": "a", "proportion": -0.1}, "proportion of a stream must be finite and not neg"),
        ({"local": "a", "download_retry": -1}, "download_retry must be an integer of at least 1"),
        ({"local": "a", "download_retry": 0}, "download_retry must be an integer of at least 1"),
        ({"local": "a", "download_retry": True}, "download_retry must be an integer of at least 1"),
        ({"local": "a", "download_timeout": 0}, "download_timeout must be a positive number"),
        ({"local": "a", "download_timeout": "9"}, "download_timeout must be a positive number"),
    ],
)
def test_arguments_are_checked(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        Stream(**arguments)


def test_a_weight_is_a_number() -> None:
    with pytest.raises(ArgumentTypeError, match="the repeat of a stream must be a number"):
        Stream(local="a", repeat="2")  # type: ignore[arg-type]


def test_derived_weights_can_be_read_and_do_not_stand_in_the_way(tmp_path: Path) -> None:
    dataset = write_numbers(tmp_path, 10)
    stream = Stream(local=str(tmp_path), proportion=0.25)
    stream._mdstorm.derive(StreamWeight(0.5, 2.0, 20))
    assert (stream.proportion, stream.repeat, stream.choose) == (0.5, 2.0, 20)
    shape = stream._mdstorm.shape(*dataset.shard_sizes)
    assert (shape.proportion, shape.repeat, shape.choose) == (0.25, None, None)
    assert shape.shard_sizes == dataset.shard_sizes
    copy = pickle.loads(pickle.dumps(stream))  # noqa: S301 - our own bytes
    assert copy._mdstorm.shape(*dataset.shard_sizes) == shape


def test_weights_are_applied_as_in_mosaicml_streaming() -> None:
    relative = [Stream(local="a", proportion=share) for share in (1, 2, 4)]
    absolute = [Stream(local="a", repeat=1.5), Stream(local="b"), Stream(local="c", choose=4)]
    assert Stream.validate_weights(relative) == (True, False)
    assert Stream.validate_weights(absolute) == (False, False)
    assert Stream.validate_weights([Stream(local="a")]) == (False, True)
    for _ in range(2):  # what was derived is not what was said
        assert Stream.apply_weights(relative, [30, 20, 10], None, 17) == 60
        assert Stream.apply_weights(absolute, [30, 20, 10], None, 17) == 69
    assert [stream.choose for stream in relative] == [8, 17, 35]
    assert [stream.choose for stream in absolute] == [45, 20, 4]
    with pytest.raises(ValueError, match="cannot be mixed"):
        Stream.validate_weights([*relative, *absolute])


def test_a_stream_has_to_be_somewhere_once_it_is_read() -> None:
    stream = Stream()
    assert (stream.local, stream.remote, stream.split) == (None, None, "")
    with pytest.raises(InvalidArgumentError, match="a stream needs the URL or path"):
        open_stream(stream, StreamDefaults())


def test_local_is_where_the_shards_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MDSTORM_CACHE_DIR", str(tmp_path / "cached"))
    remote = write_numbers(tmp_path / "data" / "train", 10, compression="zstd")
    assert Stream(remote=str(tmp_path / "data")).local == str(tmp_path / "data")
    elsewhere = Stream(remote="s3://acorns/train")
    assert elsewhere.local is not None
    assert elsewhere.local.startswith(str(tmp_path / "cached"))
    stream = Stream(remote=str(tmp_path / "data"), split="train")
    assert open_stream(stream, StreamDefaults())[0]
    name = remote.index.shards[0].raw_data.basename
    assert stream.local is not None
    assert (Path(stream.local) / name).exists()


def test_what_a_stream_does_not_say_its_dataset_says(tmp_path: Path) -> None:
    write_numbers(tmp_path / "data" / "train", 10)
    defaults = StreamDefaults(split="train", download_retry=5, keep_zip=True, cache_limit="1gb")
    stream = Stream(
        remote=str(tmp_path / "data"),
        local=str(tmp_path / "cache"),
        download_timeout=7,
        keep_zip=False,
    )
    cache = open_stream(stream, defaults).cache
    assert cache is not None
    assert cache.directory == str(tmp_path / "cache" / "train")
    assert (cache.limit, cache.retry, cache.timeout, cache.keep_zip) == (1 << 30, 5, 7, False)
    other = Stream(local=str(tmp_path), split="data/train")
    assert len(open_stream(other, defaults)) == 10


def test_a_dataset_that_is_nowhere_is_looked_for_elsewhere_by_the_user(tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFoundError, match="pass its URL as remote") as caught:
        open_stream(Stream(local=str(tmp_path)), StreamDefaults())
    assert isinstance(caught.value, RuntimeError)
    with pytest.raises(DatasetNotFoundError, match="there is no dataset at"):
        open_stream(Stream(remote=str(tmp_path), local=str(tmp_path / "x")), StreamDefaults())


def test_credentials_are_not_pickled() -> None:
    harmless = StreamDefaults(storage_options={"anon": True})
    copy = pickle.loads(pickle.dumps(harmless))  # noqa: S301 - our own bytes
    assert copy.storage_options == {"anon": True}
    with pytest.raises(InvalidArgumentError, match=r"\['secret'\]") as caught:
        pickle.dumps(StreamDefaults(storage_options={"secret": "hush"}))
    assert "hush" not in str(caught.value)


def test_a_class_of_its_own_has_a_size_and_items() -> None:
    class Squares(Array):
        @property
        def size(self) -> int:
            return 5

        def get_item(self, idx: int) -> int:
            return idx * idx

    assert (Squares()[-1], Squares()[1:3], Squares()[[[0], [4, -2]]]) == (
        16,
        [1, 4],
        [[0], [16, 9]],
    )


@pytest.mark.parametrize("number", [-1, 6])
def test_what_is_no_sample_is_an_index_error(number: int) -> None:
    with pytest.raises(IndexError, match=f"Invalid sample index {number}: there are 6 samples"):
        Spanner(np.array([3, 3]))[number]
