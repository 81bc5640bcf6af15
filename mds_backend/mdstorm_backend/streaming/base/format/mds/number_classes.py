"""The encodings of numbers as classes with the names of MosaicML Streaming."""

from __future__ import annotations

from typing import Any

import numpy as np

from mdstorm_backend.streaming.base.format.mds.encoding_classes import OfFormat


class Scalar(OfFormat):
    """A number of one of NumPy's types."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        self._use(np.dtype(dtype).name)


class _Number(Scalar):
    """A number of the type that its name says."""

    def __init__(self) -> None:
        super().__init__(np.dtype(self._text).type)


class UInt8(_Number):
    """A uint8."""

    _text = "uint8"


class UInt16(_Number):
    """A uint16."""

    _text = "uint16"


class UInt32(_Number):
    """A uint32."""

    _text = "uint32"


class UInt64(_Number):
    """A uint64."""

    _text = "uint64"


class Int8(_Number):
    """An int8."""

    _text = "int8"


class Int16(_Number):
    """An int16."""

    _text = "int16"


class Int32(_Number):
    """An int32."""

    _text = "int32"


class Int64(_Number):
    """An int64."""

    _text = "int64"


class Float16(_Number):
    """A float16."""

    _text = "float16"


class Float32(_Number):
    """A float32."""

    _text = "float32"


class Float64(_Number):
    """A float64."""

    _text = "float64"
