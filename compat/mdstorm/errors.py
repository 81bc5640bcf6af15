"""The errors of Petastorm's API, beside those of the engine.

::

    MDStormError (Exception)
    ├── NoDataAvailableError       as petastorm.errors.NoDataAvailableError
    ├── CompressionCodecError      also ValueError, RuntimeError
    ├── NotADataFrameError         also TypeError, AttributeError
    ├── NotOnDriverError           also RuntimeError
    ├── NoMatchingFieldsError      also ValueError, RuntimeError
    └── UnsupportedArgumentError   also NotImplementedError

The others, such as `NullValueError` and `UnsupportedTypeError`, are drawn in
`mdstorm_backend.errors`; all of them can be imported from here.
"""

from __future__ import annotations

from mdstorm_backend.errors import (
    ArgumentTypeError,
    CorruptDatasetError,
    CredentialsError,
    DatasetExistsError,
    DatasetNotFoundError,
    EncodingError,
    EncodingRangeError,
    EncodingTypeError,
    InvalidArgumentError,
    MDStormError,
    MissingColumnError,
    MissingDependencyError,
    NoDataAvailableError,
    NullValueError,
    StateMismatchError,
    StorageError,
    TransformError,
    UnsafeTypeError,
    UnsupportedEncodingError,
    UnsupportedTypeError,
    UnsupportedURLError,
    WriteError,
)

__all__ = [
    "ArgumentTypeError",
    "CompressionCodecError",
    "CorruptDatasetError",
    "CredentialsError",
    "DatasetExistsError",
    "DatasetNotFoundError",
    "EncodingError",
    "EncodingRangeError",
    "EncodingTypeError",
    "InvalidArgumentError",
    "MDStormError",
    "MissingColumnError",
    "MissingDependencyError",
    "NoDataAvailableError",
    "NoMatchingFieldsError",
    "NotADataFrameError",
    "NotOnDriverError",
    "NullValueError",
    "StateMismatchError",
    "StorageError",
    "TransformError",
    "UnsafeTypeError",
    "UnsupportedArgumentError",
    "UnsupportedEncodingError",
    "UnsupportedTypeError",
    "UnsupportedURLError",
    "WriteError",
]


class CompressionCodecError(MDStormError, ValueError, RuntimeError):
    """A compression codec is none of those that Petastorm knows."""


class NotADataFrameError(MDStormError, TypeError, AttributeError):
    """Something else was given where a Spark DataFrame is needed."""


class NotOnDriverError(MDStormError, RuntimeError):
    """A converter was asked for inside a Spark task."""


class NoMatchingFieldsError(MDStormError, ValueError, RuntimeError):
    """``schema_fields`` leaves no column, or a dataset has none that a framework can take."""


class UnsupportedArgumentError(MDStormError, NotImplementedError):
    """An argument of Petastorm has a value that this version gives no effect."""
