"""The classes, functions and registry that mirror ``streaming.base.format.mds.encodings``."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mdstorm_backend import MDSWriter, open_dataset
from mdstorm_backend.format.encodings.encoding import FORMAT
from mdstorm_backend.format.encodings.encoding import Encoding as EngineEncoding
from mdstorm_backend.streaming.base.format.mds import encodings
from mdstorm_backend.streaming.base.format.mds.encodings import _encodings

VALUES = [
    *(("bytes", b"ab"), ("str", "a\u00e4"), ("int", -5)),
    *(("uint8", np.uint8(200)), ("float32", np.float32(1.5))),
    *(("str_int", 1 << 80), ("str_float", 0.1), ("str_decimal", Decimal("1.20"))),
    *(("json", {"a": [1, None]}), ("pkl", {1, 2}), ("ndarray", np.arange(6).reshape(2, 3))),
    *((f"ndarray:int16{shape}", np.arange(3, dtype=np.int16)) for shape in ("", ":3")),
]


@pytest.mark.parametrize(("encoding", "value"), VALUES)
def test_mds_encode_stores_the_same_bytes_as_the_writer(
    encoding: str, value: Any, tmp_path: Path
) -> None:
    stored = encodings.mds_encode(encoding, value)
    found = encodings.mds_decode(encoding, stored)
    np.testing.assert_array_equal(found, value)
    assert encodings.get_mds_encoded_size(encoding) in (None, len(stored))
    with MDSWriter(columns={"a": encoding}, out=str(tmp_path)) as writer:
        writer.write({"a": value})
    assert stored in (tmp_path / "shard.00000.mds").read_bytes()
    (sample,) = open_dataset(str(tmp_path), allow_unsafe_types=True)[:]
    np.testing.assert_array_equal(sample["a"], value)
    assert type(sample["a"]) is type(found)


def test_every_encoding_in_the_format_has_a_class() -> None:
    assert encodings.get_mds_encodings() == set(_encodings) == {*_encodings.keys()}
    kinds = {name: kind for name, kind in _encodings.items() if hasattr(encodings, kind.__name__)}
    assert len(kinds) == 28  # the number of encodings in MosaicML Streaming
    for name, kind in kinds.items():
        assert issubclass(kind, encodings.Encoding)
        assert getattr(encodings, kind.__name__) is kind
        assert kind().size == encodings.get_mds_encoded_size(name)


def test_unknown_encodings_raise_value_error_and_pickle_is_unsafe() -> None:
    for text in ("nothing", "nothing:3"):
        assert not encodings.is_mds_encoding(text)
        for call in (encodings.mds_decode, encodings.mds_encode):
            with pytest.raises(ValueError, match="'nothing"):
                call(text, b"" if call is encodings.mds_decode else "")  # type: ignore[arg-type]
    assert encodings.mds_encode("nothing", b"as it is") == b"as it is"
    assert encodings.is_mds_encoding("ndarray:float32:2,3")
    assert not encodings.is_mds_encoding_safe("pkl")
    assert encodings.is_mds_encoding_safe("json")


def test_format_encoding_without_a_class_of_its_own_gets_one_that_takes_parameters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Fixed(EngineEncoding):
        @property
        def size(self) -> int:
            return int(self.text.partition(":")[2])

        @classmethod
        def parse(cls, text: str, parameters: str) -> EngineEncoding | None:
            return cls(text) if parameters else None

        def encode(self, value: Any) -> bytes:
            return bytes(value.rjust(self.size))

        def decode(self, stored: Any) -> Any:
            return stored

    monkeypatch.setitem(FORMAT, "fixed", Fixed)
    assert encodings.mds_encode("fixed:3", bytearray(b"a")) == b"  a"
    assert encodings.get_mds_encoded_size("fixed:3") == 3
    assert not encodings.is_mds_encoding("fixed")
    kind = _encodings["fixed"]
    assert _encodings["fixed"] is kind
    _encodings["fixed"] = Negative
    _encodings["fixed"] = kind
    assert _encodings["fixed"] is kind


def test_values_of_wrong_types_raise_mosaicml_streaming_errors() -> None:
    wrong = {encodings.Int(): "5", encodings.Str(): b"a", encodings.StrDecimal(): 1.5}
    for coder, value in wrong.items():
        for kind in (AttributeError, TypeError):
            with pytest.raises(kind):
                coder.encode(value)
    with pytest.raises(OverflowError):
        encodings.UInt8().encode(256)
    with pytest.raises(ValueError, match="shape"):
        encodings.NDArray("int8", (2,)).encode(np.zeros(3, np.int8))


class Texts(encodings.List):
    def underlying_encoder(self) -> encodings.Encoding:
        return encodings.Str()


class Negative(encodings.Int):
    def encode(self, obj: int) -> bytes:
        return super().encode(-obj)

    def decode(self, data: bytes) -> int:
        return -super().decode(data)  # type: ignore[no-any-return]


def test_encodings_can_be_registered_like_dict_items(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(_encodings, "texts", Texts)
    monkeypatch.setitem(_encodings, "int", Negative)
    assert _encodings["texts"] is Texts
    assert "texts" in encodings.get_mds_encodings()
    assert encodings.mds_encode("int", 5) == np.int64(-5).tobytes()
    with MDSWriter(columns={"i": "int", "t": "texts"}, out=str(tmp_path)) as writer:
        writer.write({"i": 5, "t": ["a", "bc"]})
    assert open_dataset(str(tmp_path))[0] == {"i": 5, "t": ["a", "bc"]}
    monkeypatch.undo()
    assert "texts" not in _encodings
    assert _encodings["int"] is encodings.Int
    assert open_dataset(str(tmp_path)).sample(0, ["i"]) == {"i": -5}
    _encodings["int"] = Negative
    del _encodings["int"]
    assert _encodings["int"] is encodings.Int
    with pytest.raises(KeyError):
        del _encodings["int"]
