"""Every error that the engine raises on purpose.

::

    MDStormError (Exception)
    ├── DatasetNotFoundError      also FileNotFoundError, RuntimeError
    ├── CorruptDatasetError       also ValueError
    ├── UnsupportedEncodingError  also NotImplementedError
    ├── UnsupportedTypeError      also TypeError
    ├── UnsupportedURLError       also ValueError
    ├── InvalidArgumentError      also ValueError
    ├── ArgumentTypeError         also TypeError
    ├── NoDataAvailableError      (Exception alone, as Petastorm's)
    ├── NullValueError            also TypeError, ValueError
    ├── TransformError            also ValueError
    ├── StateMismatchError        also ValueError
    ├── WriteError                also RuntimeError
    └── MissingDependencyError    also ImportError

Each class is also the builtin that code written before mdstorm already catches. Each message says
what was found, where, and what to do about it. Attributes have defaults because pickle, and the
worker processes of PyTorch, make an error of its message alone.
"""

from __future__ import annotations

__all__ = [
    "ArgumentTypeError",
    "CorruptDatasetError",
    "DatasetNotFoundError",
    "InvalidArgumentError",
    "MDStormError",
    "MissingDependencyError",
    "NoDataAvailableError",
    "NullValueError",
    "StateMismatchError",
    "TransformError",
    "UnsupportedEncodingError",
    "UnsupportedTypeError",
    "UnsupportedURLError",
    "WriteError",
]


class MDStormError(Exception):
    """Base of every error that mdstorm raises on purpose."""


class DatasetNotFoundError(MDStormError, FileNotFoundError, RuntimeError):
    """There is no dataset at a URL, or one of its shards is gone.

    Attributes
    ----------
    url : str
        Where the dataset was looked for.
    """

    def __init__(self, message: str, *, url: str = "") -> None:
        super().__init__(message)
        self.url = url


class CorruptDatasetError(MDStormError, ValueError):
    """A file of a dataset does not hold what the MDS format or its index says.

    Attributes
    ----------
    url : str
        The file that is at fault.
    """

    def __init__(self, message: str, *, url: str = "") -> None:
        super().__init__(message)
        self.url = url


class UnsupportedEncodingError(MDStormError, NotImplementedError):
    """A column is stored in an encoding that this version cannot decode."""


class UnsupportedTypeError(MDStormError, TypeError):
    """Columns of a DataFrame have types that MDS shards cannot carry.

    Attributes
    ----------
    columns : dict of str to str
        The refused columns, each with the reason.
    """

    def __init__(self, message: str, *, columns: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.columns = columns or {}


class UnsupportedURLError(MDStormError, ValueError):
    """A URL has a scheme that is unknown, or none where one is needed."""


class InvalidArgumentError(MDStormError, ValueError):
    """An argument has a value outside its domain."""


class ArgumentTypeError(MDStormError, TypeError):
    """An argument has the wrong type, or is not known at all."""


class NoDataAvailableError(MDStormError):
    """There are fewer rows than ranks, so a rank would have nothing to read."""


class NullValueError(MDStormError, TypeError, ValueError):
    """A null would reach a tensor as an arbitrary value.

    Attributes
    ----------
    column : str
        The column that holds nulls.
    null_count : int
        How many nulls the rows at hand hold.
    """

    def __init__(self, message: str, *, column: str = "", null_count: int = 0) -> None:
        super().__init__(message)
        self.column = column
        self.null_count = null_count


class TransformError(MDStormError, ValueError):
    """A transform returned columns, dtypes or shapes other than the ones it declared."""


class StateMismatchError(MDStormError, ValueError):
    """A checkpoint state belongs to another dataset or to another way of reading it."""


class WriteError(MDStormError, RuntimeError):
    """A dataset could not be written; nothing that looks like a dataset is left behind."""


class MissingDependencyError(MDStormError, ImportError):
    """An optional library is needed and is not installed.

    Attributes
    ----------
    extra : str
        The pip extra that brings the library; empty where the library itself is to be installed.
    """

    def __init__(self, message: str, *, extra: str = "") -> None:
        super().__init__(message)
        self.extra = extra
