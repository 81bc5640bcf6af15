"""The exceptions in Petastorm's API, in addition to the engine's.

::

    MDStormError (Exception)
    ├── NoDataAvailableError       as petastorm.errors.NoDataAvailableError
    ├── CompressionCodecError      also ValueError, RuntimeError
    ├── NotADataFrameError         also TypeError, AttributeError
    ├── NotOnDriverError           also RuntimeError
    ├── NotPicklableError          also TypeError
    ├── UnsupportedArgumentError   also NotImplementedError
    ├── PetastormImportedError     an AlreadyImportedError, hence ImportError
    ├── ShufflingBufferError       also RuntimeError
    ├── DecodeFieldError           also RuntimeError
    ├── PetastormMetadataError
    │   ├── MetadataNotFoundError  also DatasetNotFoundError, hence OSError
    │   └── UnsafePickleError      also pickle.UnpicklingError, ValueError
    ├── PetastormMetadataGenerationError
    ├── UnsortedTimestampsError    also NotImplementedError
    ├── RowArgumentError           an ArgumentTypeError, also AssertionError
    ├── RowTransformError          a TransformError, also TypeError
    ├── NullInRowError             also RuntimeError
    ├── UnequalLengthsError        also RuntimeError
    └── WorkerDiedError            also RuntimeError

`mdstorm_backend.errors` lists the others, such as `NullValueError` and `UnsupportedTypeError`. You
can import all of them from here.
"""

# ruff: noqa: F403, F405  # users import all errors from this module

from pickle import UnpicklingError

import mdstorm_backend.errors as _engine
from mdstorm_backend.errors import *

__all__ = [
    "CompressionCodecError",
    "DecodeFieldError",
    "MetadataNotFoundError",
    "NotADataFrameError",
    "NotOnDriverError",
    "NotPicklableError",
    "NullInRowError",
    "PetastormImportedError",
    "PetastormMetadataError",
    "PetastormMetadataGenerationError",
    "RowArgumentError",
    "RowTransformError",
    "ShufflingBufferError",
    "UnequalLengthsError",
    "UnsafePickleError",
    "UnsortedTimestampsError",
    "UnsupportedArgumentError",
    "WorkerDiedError",
]
__all__ += _engine.__all__

# Petastorm's errors are in the modules where Petastorm defines them, because programs and pickles
# name these.
NoDataAvailableError.__module__ = __name__


class CompressionCodecError(MDStormError, ValueError, RuntimeError):
    """A compression codec is not one of those that Petastorm accepts."""


class NotADataFrameError(MDStormError, TypeError, AttributeError):
    """An argument is not a Spark DataFrame, or is a stream, or its session was stopped."""


class NotOnDriverError(MDStormError, RuntimeError):
    """A converter was requested inside a Spark task."""


class NotPicklableError(MDStormError, TypeError):
    """An object that reads files cannot be sent to another process."""


class UnsupportedArgumentError(MDStormError, NotImplementedError):
    """An argument, a combination of arguments, or another use of the API is not supported."""


class PetastormImportedError(AlreadyImportedError):
    """mdstorm cannot replace Petastorm because it has already been imported."""


class ShufflingBufferError(MDStormError, RuntimeError):
    """A shuffling buffer is too full to add to, too empty to retrieve from, or finished."""


class DecodeFieldError(MDStormError, RuntimeError):
    """A stored value was not written by its field's codec."""

    __module__ = "mdstorm.utils"


class PetastormMetadataError(MDStormError):
    """A dataset has no usable Petastorm metadata."""

    __module__ = "mdstorm.etl.dataset_metadata"


class MetadataNotFoundError(PetastormMetadataError, DatasetNotFoundError):
    """There is no dataset at a URL where Petastorm metadata was expected."""


class UnsafePickleError(PetastormMetadataError, UnpicklingError, ValueError):
    """Metadata contains a pickle that Petastorm would not write; nothing in it was executed."""


class PetastormMetadataGenerationError(MDStormError):
    """The files written in a ``materialize_dataset`` block cannot be turned into a dataset."""

    __module__ = "mdstorm.etl.dataset_metadata"


class UnsortedTimestampsError(MDStormError, NotImplementedError):
    """N-grams were requested from rows that are not sorted by timestamp."""


class RowArgumentError(ArgumentTypeError, AssertionError):
    """`dict_to_spark_row` was not called with a schema and a dict."""


class RowTransformError(TransformError, TypeError):
    """A row reader's transform function did not return a dict of exactly the declared fields."""


class NullInRowError(MDStormError, RuntimeError):
    """A row for TensorFlow contains None, which no tensor can represent."""


class UnequalLengthsError(MDStormError, RuntimeError):
    """Arrays that should form one TensorFlow tensor have different lengths."""


class WorkerDiedError(MDStormError, RuntimeError):
    """A worker process died while running a user-defined function."""
