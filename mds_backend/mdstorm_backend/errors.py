"""The exceptions that the engine raises.

::

    MDStormError (Exception)
    ├── DatasetNotFoundError      also FileNotFoundError, RuntimeError
    ├── DatasetChangedError       also RuntimeError
    ├── CorruptDatasetError       also ValueError
    │   ├── CorruptIndexError     also json.JSONDecodeError
    │   └── MissingFileError      also FileNotFoundError
    ├── UnsafeTypeError           also ValueError
    ├── UnsupportedEncodingError  also NotImplementedError, ValueError
    ├── UnsupportedTableError     also NotImplementedError
    ├── UnsupportedTypeError      also TypeError, ValueError
    ├── UnsupportedURLError       also ValueError
    ├── InvalidArgumentError      also ValueError
    ├── ArgumentTypeError         also TypeError
    ├── NoDataAvailableError      (only Exception, as Petastorm's)
    ├── NoMatchingFieldsError     also ValueError, RuntimeError
    ├── NullValueError            also TypeError, ValueError
    ├── TransformError            also ValueError
    ├── StateMismatchError        also ValueError
    ├── ConcurrentIterationError  also ValueError
    ├── LostBatchesError          also RuntimeError
    ├── EncodingError             also ValueError
    │   ├── EncodingTypeError     also TypeError, AttributeError
    │   └── EncodingRangeError    also OverflowError
    ├── MissingColumnError        also KeyError
    ├── WriteError                also RuntimeError
    │   └── DatasetExistsError    also FileExistsError
    ├── StorageError              also OSError
    │   └── NameNodeError         also RuntimeError
    ├── CredentialsError          also PermissionError
    ├── MissingDependencyError    also ModuleNotFoundError
    ├── MissingNameError          also ImportError
    ├── MissingModuleError        also ModuleNotFoundError
    ├── MissingAttributeError     also AttributeError
    └── AlreadyImportedError      also ImportError

Each class also derives from the built-in exception that existing code catches. Each message states
what was found, where, and what to do about it. Attributes have defaults because pickle and
PyTorch's worker processes construct an error from its message alone.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "AlreadyImportedError",
    "ArgumentTypeError",
    "ConcurrentIterationError",
    "CorruptDatasetError",
    "CorruptIndexError",
    "CredentialsError",
    "DatasetChangedError",
    "DatasetExistsError",
    "DatasetNotFoundError",
    "EncodingError",
    "EncodingRangeError",
    "EncodingTypeError",
    "InvalidArgumentError",
    "LostBatchesError",
    "MDStormError",
    "MissingAttributeError",
    "MissingColumnError",
    "MissingDependencyError",
    "MissingFileError",
    "MissingModuleError",
    "MissingNameError",
    "NameNodeError",
    "NoDataAvailableError",
    "NoMatchingFieldsError",
    "NullValueError",
    "StateMismatchError",
    "StorageError",
    "TransformError",
    "UnsafeTypeError",
    "UnsupportedEncodingError",
    "UnsupportedTableError",
    "UnsupportedTypeError",
    "UnsupportedURLError",
    "WriteError",
]


#: The URL of the published documentation, such as ``https://example.org/mdstorm``. If it is set,
#: each message ends with a link to the section about the error's class. Empty until the output of
#: `make docs` is published.
SITE_URL = ""


class MDStormError(Exception):
    """Base class for all errors that mdstorm raises on purpose."""

    def __str__(self) -> str:
        return self._with_link(super().__str__())

    def _with_link(self, message: str) -> str:
        if not SITE_URL or SITE_URL in message:  # a quoted error may already have a link
            return message
        # Error classes in the engine's other modules are internal.
        modules = ((c.__name__, c.__module__) for c in type(self).__mro__)
        ours = next(n for n, m in modules if m.startswith("mdstorm.") or m.endswith(".errors"))
        return f"{message}\n{SITE_URL}/troubleshooting.html#{ours.lower()}"


class _UrlError(MDStormError):
    """Base class for errors with the URL that caused them."""

    def __init__(self, message: str, *, url: str = "") -> None:
        super().__init__(message)
        self.url = url


class DatasetNotFoundError(_UrlError, FileNotFoundError, RuntimeError):
    """There is no dataset at a URL, or one of its shards is missing.

    Attributes
    ----------
    url : str
        The URL where a dataset was expected.
    """


class DatasetChangedError(_UrlError, RuntimeError):
    """A file of a dataset was written to or replaced after the dataset was opened.

    It is never treated as damage: ``on_corrupt="skip"`` does not skip it.

    Attributes
    ----------
    url : str
        The file that changed.
    """


class CorruptDatasetError(_UrlError, ValueError):
    """A dataset file is damaged: its bytes contradict its format, its index or its checksums.

    Attributes
    ----------
    url : str
        The file that does not match.
    """

    @classmethod
    def of_file(cls, url: str, what: str) -> CorruptDatasetError:
        """Return the error for a file; `what` describes the damage."""
        return cls(f"{url} {what}. Copy the file again, or write the dataset again", url=url)


class CorruptIndexError(CorruptDatasetError, json.JSONDecodeError):
    """An index is empty, truncated, or otherwise not valid JSON.

    Attributes
    ----------
    url : str
        The index.
    msg, doc, pos, lineno, colno
        As in `json.JSONDecodeError`; `doc` is empty, and `lineno` is 1.
    """

    def __init__(self, message: str, *, url: str = "", pos: int = 0) -> None:
        ValueError.__init__(self, message)  # JSONDecodeError would add the line and column
        self.url, self.msg, self.doc, self.pos = url, message, "", pos
        self.lineno, self.colno = 1, pos + 1

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self.args, vars(self)


class MissingFileError(CorruptDatasetError, FileNotFoundError):
    """A file that a column names does not exist.

    Attributes
    ----------
    url : str
        The file.
    """


class UnsafeTypeError(MDStormError, ValueError):
    """A column holds pickles, and the caller did not allow loading them."""


class UnsupportedEncodingError(MDStormError, NotImplementedError, ValueError):
    """A column is stored in an encoding that is not known in this process."""


class UnsupportedTableError(_UrlError, NotImplementedError):
    """mdstorm cannot read sound files as one dataset, or a job has not finished writing them.

    Files have different columns, types or features that mdstorm does not support, or do not fit
    their table's log.

    Attributes
    ----------
    url : str
        The table, or the index of the shards.
    """


class UnsupportedTypeError(MDStormError, TypeError, ValueError):
    """Columns of a DataFrame have types that cannot be stored in MDS shards.

    Attributes
    ----------
    columns : dict of str to str
        The columns that cannot be stored, each with the reason.
    """

    def __init__(self, message: str, *, columns: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.columns = columns or {}


class UnsupportedURLError(MDStormError, ValueError):
    """A URL has an unknown scheme, or no scheme where one is needed."""


class InvalidArgumentError(MDStormError, ValueError):
    """An argument has an invalid value."""


class ArgumentTypeError(MDStormError, TypeError):
    """An argument has the wrong type, or is unknown."""


class NoDataAvailableError(MDStormError):
    """There are fewer rows than ranks, so a rank would have nothing to read."""


class NoMatchingFieldsError(MDStormError, ValueError, RuntimeError):
    """No column matches what is read, or a dataset has none of a type that can be read."""


class NullValueError(MDStormError, TypeError, ValueError):
    """A null would become an arbitrary value in a tensor.

    Attributes
    ----------
    column : str
        The column that contains nulls; the first one if there are several.
    null_count : int
        Number of nulls in that column among the rows that were read.
    columns : dict of str to int
        All columns known to contain such nulls, with the number of nulls in each.
    """

    def __init__(self, message: str, *, columns: Mapping[str, int] | None = None) -> None:
        super().__init__(message)
        self.columns = dict(columns or {})
        self.column = next(iter(self.columns), "")
        self.null_count = self.columns.get(self.column, 0)


class TransformError(MDStormError, ValueError):
    """A function returned values that differ from its declaration, or that cannot be used."""


class StateMismatchError(MDStormError, ValueError):
    """A checkpoint state does not match the dataset or the settings used to read it."""


class ConcurrentIterationError(MDStormError, ValueError):
    """A thread used an iterator while another thread was using it."""


class LostBatchesError(MDStormError, RuntimeError):
    """A worker process could not send its batches."""


class EncodingError(MDStormError, ValueError):
    """A value does not fit its column's encoding, or the Python type that it would become.

    Attributes
    ----------
    column : str
        The column.
    encoding : str
        Its encoding.
    """

    def __init__(self, message: str, *, column: str = "", encoding: str = "") -> None:
        super().__init__(message)
        self.column = column
        self.encoding = encoding

    @staticmethod
    def class_for(error: Exception) -> type[EncodingError]:
        """Return the EncodingError class that matches an error raised by an encoding."""
        if isinstance(error, OverflowError):
            return EncodingRangeError
        is_of_type = isinstance(error, (AttributeError, TypeError))
        return EncodingTypeError if is_of_type else EncodingError


class EncodingTypeError(EncodingError, TypeError, AttributeError):
    """A value has a type that its column's encoding does not accept."""


class EncodingRangeError(EncodingError, OverflowError):
    """A number, date or time is out of the range of its column's encoding or of Python's type."""


class MissingColumnError(MDStormError, KeyError):
    """A sample lacks a column of the dataset, or a requested column does not exist.

    Attributes
    ----------
    column : str
        The column.
    """

    def __init__(self, message: str, *, column: str = "") -> None:
        super().__init__(message)
        self.column = column

    def __str__(self) -> str:
        return self._with_link(Exception.__str__(self))  # KeyError would quote the message


class WriteError(MDStormError, RuntimeError):
    """A dataset could not be written; nothing is left that could be mistaken for a dataset."""


class DatasetExistsError(WriteError, FileExistsError):
    """The destination holds files that must not be replaced, or another writer is using it."""


class StorageError(_UrlError, OSError):
    """The storage, or the disk of the shard cache, failed even after retries.

    Attributes
    ----------
    url : str
        The URL that could not be read or written.
    """


class NameNodeError(StorageError, RuntimeError):
    """HDFS cannot be reached, or neither the URL nor the configuration specifies a name node."""


class CredentialsError(_UrlError, PermissionError):
    """Credentials for an object store are missing, have expired, or do not allow the request.

    Attributes
    ----------
    url : str
        The URL that could not be read or written.
    is_expired : bool
        Whether the credentials have expired, or may have.
    """

    def __init__(self, message: str, *, url: str = "", is_expired: bool = False) -> None:
        super().__init__(message, url=url)
        self.is_expired = is_expired


class MissingDependencyError(MDStormError, ModuleNotFoundError):
    """An optional library, or Java, is needed but not installed.

    Attributes
    ----------
    extra : str
        The pip extra that installs the library; empty if it has none.
    name : str or None
        The module that cannot be imported, as in every ImportError; None if unknown.
    """

    def __init__(self, message: str, *, extra: str = "", name: str | None = None) -> None:
        super().__init__(message)
        self.extra = extra
        self.name = name


class MissingNameError(MDStormError, ImportError):
    """A name imported from a library that mdstorm replaces does not exist in mdstorm."""


class MissingModuleError(MDStormError, ModuleNotFoundError):
    """A module imported from a library that mdstorm replaces does not exist in mdstorm."""


class MissingAttributeError(MDStormError, AttributeError):
    """An attribute of a library that mdstorm replaces does not exist in mdstorm."""


class AlreadyImportedError(MDStormError, ImportError):
    """mdstorm cannot replace a library that was already imported."""
