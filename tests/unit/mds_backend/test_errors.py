import inspect
import json
import pickle
from typing import Any

import pytest

from mdstorm_backend import errors

#: The built-in base classes of each error, which existing code may catch.
BUILTINS: dict[str, tuple[type[BaseException], ...]] = {
    "DatasetNotFoundError": (FileNotFoundError, RuntimeError),
    "DatasetChangedError": (RuntimeError,),
    "CorruptDatasetError": (ValueError,),
    "CorruptIndexError": (ValueError, json.JSONDecodeError),
    "MissingFileError": (ValueError, FileNotFoundError),
    "UnsupportedEncodingError": (NotImplementedError, ValueError),
    "UnsupportedTableError": (NotImplementedError,),
    "UnsupportedTypeError": (TypeError, ValueError),
    "UnsupportedURLError": (ValueError,),
    "InvalidArgumentError": (ValueError,),
    "ArgumentTypeError": (TypeError,),
    "NoDataAvailableError": (Exception,),
    "NoMatchingFieldsError": (ValueError, RuntimeError),
    "NullValueError": (TypeError, ValueError),
    "TransformError": (ValueError,),
    "UnsafeTypeError": (ValueError,),
    "StateMismatchError": (ValueError,),
    "ConcurrentIterationError": (ValueError,),
    "LostBatchesError": (RuntimeError,),
    "EncodingError": (ValueError,),
    "EncodingTypeError": (ValueError, TypeError, AttributeError),
    "EncodingRangeError": (ValueError, OverflowError),
    "MissingColumnError": (KeyError,),
    "WriteError": (RuntimeError,),
    "StorageError": (OSError,),
    "CredentialsError": (PermissionError,),
    "DatasetExistsError": (RuntimeError, FileExistsError),
    "NameNodeError": (OSError, RuntimeError),
    "MissingDependencyError": (ModuleNotFoundError,),
    "MissingNameError": (ImportError,),
    "MissingModuleError": (ModuleNotFoundError,),
    "MissingAttributeError": (AttributeError,),
    "AlreadyImportedError": (ImportError,),
}
ATTRIBUTES: dict[str, dict[str, Any]] = {
    "DatasetNotFoundError": {"url": "file:///x"},
    "DatasetChangedError": {"url": "file:///x"},
    "CorruptDatasetError": {"url": "file:///x"},
    "CorruptIndexError": {"url": "file:///x", "pos": 4},
    "MissingFileError": {"url": "file:///x"},
    "UnsupportedTableError": {"url": "file:///x"},
    "StorageError": {"url": "file:///x"},
    "CredentialsError": {"url": "file:///x"},
    "UnsupportedTypeError": {"columns": {"a": "why"}},
    "EncodingError": {"column": "a", "encoding": "int8"},
    "EncodingTypeError": {"column": "a", "encoding": "int8"},
    "MissingColumnError": {"column": "a"},
    "NullValueError": {"columns": {"a": 3, "b": 1}},
    "MissingDependencyError": {"extra": "torch"},
}


def test_error_list_is_complete_and_sorted() -> None:
    classes = [
        name for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, Exception) and name[0] != "_"
    ]  # fmt: skip
    assert sorted(classes) == sorted(errors.__all__) == sorted([*BUILTINS, "MDStormError"])
    assert errors.__all__ == sorted(errors.__all__)


@pytest.mark.parametrize("name", BUILTINS)
def test_errors_are_builtin_exceptions_and_can_be_pickled(name: str) -> None:
    made = getattr(errors, name)("what, where, and what to do", **ATTRIBUTES.get(name, {}))
    for error in (made, pickle.loads(pickle.dumps(made))):  # noqa: S301 - our own bytes
        assert type(error) is getattr(errors, name)
        assert all(isinstance(error, base) for base in (errors.MDStormError, *BUILTINS[name]))
        assert str(error) == "what, where, and what to do"
        assert vars(error).items() >= ATTRIBUTES.get(name, {}).items()
    # PyTorch re-raises a worker process's error from its message alone.
    assert str(getattr(errors, name)("what")) == "what"
