"""What SDKs raise, by the names of their exceptions, becomes errors of ours without secrets."""

import traceback
from typing import Any

import pytest

from mdstorm_backend.errors import CorruptDatasetError, CredentialsError, StorageError
from mdstorm_backend.storage.faults import storage_faults


def raised(error: Exception, url: str = "gs://bucket/x", **options: Any) -> Exception:
    with pytest.raises(Exception) as caught, storage_faults(url, options):  # noqa: PT011
        raise error
    return caught.value


def named(name: str, *bases: type, **attributes: Any) -> Exception:
    """An exception of an SDK that is not installed."""
    error: Exception = type(name, bases or (Exception,), attributes)("what it says")
    return error


@pytest.mark.parametrize(
    "error",
    [
        named("DefaultCredentialsError"),
        named("RefreshError"),
        named("NoCredentialsError"),
        named("Special", type(named("ClientAuthenticationError"))),
        named("HttpError", code=403),
        named("HttpError", code=401),
        named("HttpResponseError", status_code=403),
        named("ClientResponseError", status=401),
        PermissionError("what it says"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_refusals_name_where_credentials_were_looked_for(error: Exception) -> None:
    found = raised(error)
    assert isinstance(found, CredentialsError)
    assert "Google Cloud Storage (gs:) gives no access (what it says)" in str(found)
    assert "Set GOOGLE_APPLICATION_CREDENTIALS, or GCS_KEY and GCS_SECRET, with rights" in str(
        found
    )
    assert found.url == "gs://bucket/x"


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError("what it says"),
        named("NotFound"),
        named("ResourceNotFoundError"),
        named("HttpError", code=404),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_is_absent_is_not_found(error: Exception) -> None:
    found = raised(error)
    assert type(found) is FileNotFoundError
    assert str(found) == "gs://bucket/x: what it says"


@pytest.mark.parametrize(
    "error",
    [named("HttpError", code=500), TimeoutError("what it says"), ConnectionError("what it says")],
    ids=lambda error: type(error).__name__,
)
def test_everything_else_is_a_failure_of_the_storage(error: Exception) -> None:
    found = raised(error)
    assert isinstance(found, StorageError)
    assert f"gs://bucket/x cannot be used ({type(error).__name__}: what it says)" in str(found)


@pytest.mark.parametrize("error", [CorruptDatasetError("ours"), FileExistsError("its own")])
def test_errors_that_say_it_already_pass(error: Exception) -> None:
    assert raised(error) is error


def test_only_the_first_line_is_repeated() -> None:
    assert "<xml" not in str(raised(OSError("bad request\nContent: <xml>")))


def test_secrets_in_what_an_sdk_says_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of-the-environment")
    error = OSError("sent of-the-environment and of-the-options to https://h/?sig=signed&x=1")
    found = raised(error, client_kwargs={"token": "of-the-options"})
    shown = "".join(traceback.format_exception(found))
    assert "sent *** and *** to https://h/?sig=***&x=1" in str(found)
    for secret in ("of-the-environment", "of-the-options", "signed"):
        assert secret not in shown
