"""API errors, most of which are also built-in errors that existing code may catch."""

import inspect
import pickle
from pickle import UnpicklingError

import pytest

import mdstorm_backend.errors
from mdstorm import errors

#: Errors that mdstorm defines but mdstorm_backend does not, with their base classes.
BASES = {
    "CompressionCodecError": (ValueError, RuntimeError),
    "DecodeFieldError": (RuntimeError,),
    "MetadataNotFoundError": (errors.PetastormMetadataError, FileNotFoundError),
    "NotADataFrameError": (TypeError, AttributeError),
    "NotOnDriverError": (RuntimeError,),
    "NotPicklableError": (TypeError,),
    "NullInRowError": (RuntimeError,),
    "PetastormImportedError": (ImportError,),
    "PetastormMetadataError": (),
    "PetastormMetadataGenerationError": (),
    "RowArgumentError": (TypeError, AssertionError),
    "RowTransformError": (ValueError, TypeError),
    "ShufflingBufferError": (RuntimeError,),
    "UnequalLengthsError": (RuntimeError,),
    "UnsafePickleError": (UnpicklingError, ValueError),
    "UnsortedTimestampsError": (NotImplementedError,),
    "UnsupportedArgumentError": (NotImplementedError,),
    "WorkerDiedError": (RuntimeError,),
}


def test_error_list_is_complete() -> None:
    assert sorted([*BASES, *mdstorm_backend.errors.__all__]) == sorted(errors.__all__)
    classes = dict(inspect.getmembers(mdstorm_backend.errors, inspect.isclass))
    assert {name for name in classes if not name.startswith("_")} <= set(errors.__all__)
    for name in mdstorm_backend.errors.__all__:  # both packages have the same classes
        assert getattr(errors, name) is getattr(mdstorm_backend.errors, name)


@pytest.mark.parametrize("name", BASES)
def test_each_error_has_mdstorm_and_builtin_base_classes(name: str) -> None:
    error = getattr(errors, name)
    assert issubclass(error, errors.MDStormError)
    for base in BASES[name]:
        assert issubclass(error, base)


@pytest.mark.parametrize("name", errors.__all__)
def test_error_message_ends_with_docs_link_if_site_url_is_set(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = getattr(errors, name)("what was found, where, what to do")
    assert str(error) == "what was found, where, what to do"
    monkeypatch.setattr(mdstorm_backend.errors, "SITE_URL", "https://example.org/mdstorm")
    place = f"https://example.org/mdstorm/troubleshooting.html#{name.lower()}"
    for same in (error, pickle.loads(pickle.dumps(error))):  # noqa: S301
        assert str(same) == f"what was found, where, what to do\n{place}"
    assert str(errors.WriteError(f"it failed ({error})")).count("https://") == 1
