"""A schema with every codec, and schemas as pickled by old versions of Petastorm."""

import pickle
from decimal import Decimal
from typing import Any

import numpy as np
from pyspark.sql import types

from mdstorm.codecs import CompressedImageCodec, CompressedNdarrayCodec, NdarrayCodec, ScalarCodec
from mdstorm.unischema import Unischema, UnischemaField

EVERYTHING = Unischema(
    "Everything",
    [
        UnischemaField("id", np.int64, (), ScalarCodec(types.LongType()), False),
        UnischemaField("name", np.str_, (), ScalarCodec(types.StringType()), True),
        UnischemaField("price", Decimal, (), ScalarCodec(types.DecimalType(10, 2)), False),
        UnischemaField("at", np.datetime64, (), ScalarCodec(types.TimestampType()), False),
        UnischemaField("flag", np.bool_, (), None, False),
        UnischemaField("vec", np.float32, (3,), NdarrayCodec(), False),
        UnischemaField("mat", np.int16, (None, 2), NdarrayCodec(), True),
        UnischemaField("zipped", np.uint8, (None,), CompressedNdarrayCodec(), True),
        UnischemaField("png", np.uint8, (None, None, 3), CompressedImageCodec("png"), False),
        UnischemaField("jpeg", np.uint8, (8, 8), CompressedImageCodec("jpeg", 90), True),
    ],
)


def protocol_0(*, root: str = "petastorm", restored: bool = False) -> bytes:
    """Return a pickled schema with two fields, as Python 2 wrote it.

    `root` is the name of Petastorm's package. With `restored`, the fields are as in datasets from
    0.4.0 to 0.7.0, where Spark pickled namedtuples in its own way.
    """
    make = _restored_field if restored else _reconstructed_field
    long_ = _reconstructed("pyspark.sql.types", "LongType")
    scalar = _with_state(_reconstructed(f"{root}.codecs", "ScalarCodec"), ("_spark_type", long_))
    image = _with_state(
        _reconstructed(f"{root}.codecs", "CompressedImageCodec"),
        ("_image_codec", "S'.png'\n"),
        ("_quality", "I80\n"),
    )
    fields = {
        "id": make(root, "S'id'\ncnumpy\nint64\n(t" + scalar + "I00\n"),
        "im": make(root, "Vim\ncnumpy\nuint8\n(I32\nNI3\nt" + image + "I01\n"),
    }
    pairs = "".join(f"(lS'{name}'\na{field}aa" for name, field in fields.items())
    ordered = f"ccollections\nOrderedDict\n((l{pairs}tR"
    state = [("_name", "S'Old'\n"), ("_fields", ordered), *fields.items()]
    text = _with_state(_reconstructed(f"{root}.unischema", "Unischema"), *state) + "."
    return text.encode("ascii")


def _reconstructed(module: str, name: str) -> str:
    return f"ccopy_reg\n_reconstructor\n(c{module}\n{name}\nc__builtin__\nobject\nNtR"


def _with_state(text: str, *state: tuple[str, str]) -> str:
    return text + "(d" + "".join(f"S'{key}'\n{value}s" for key, value in state) + "b"


def _reconstructed_field(root: str, values: str) -> str:
    return (
        f"ccopy_reg\n_reconstructor\n(c{root}.unischema\nUnischemaField\nc__builtin__\ntuple\n"
        f"({values}ttR"
    )


def _restored_field(root: str, values: str) -> str:
    names = "".join(f"S'{n}'\n" for n in ("name", "numpy_dtype", "shape", "codec", "nullable"))
    return f"cpyspark.serializers\n_restore\n(S'UnischemaField'\n({names}t({values}ttR"


class Calls:
    """An object whose pickle calls `function` when loaded."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


def calling(function: Any, *arguments: Any, protocol: int = 2) -> bytes:
    return pickle.dumps(Calls(function, *arguments), protocol)
