"""No message, repr or pickle has a secret, whichever variable, option or URL it comes from.

The names are those that the stores' own libraries and command-line tools document.
"""

import pickle
from typing import Any

import pytest

from mdstorm_backend.errors import InvalidArgumentError, StorageError
from mdstorm_backend.storage import Location, urls

MARK = "zaa9Uq+xyz=s3cr3tOfTheStore"
VARIABLES = [
    # boto3, s3fs and the AWS CLI
    *("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN", "FSSPEC_S3_SECRET"),
    *("AWS_CONTAINER_AUTHORIZATION_TOKEN", "FSSPEC_S3_TOKEN", "AWS_BEARER_TOKEN_BEDROCK"),
    # azure-identity, adlfs and the Azure CLI
    *("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_CLIENT_SECRET"),
    *("AZURE_STORAGE_CONNECTION_STRING", "AZURE_CLIENT_SECRET", "AZURE_PASSWORD"),
    *("AZURE_ACCOUNT_ACCESS_KEY", "AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCESS_KEY"),
    *("AZURE_STORAGE_TOKEN", "AZURE_CLIENT_CERTIFICATE_PASSWORD"),
    # gcsfs, HMAC keys, Databricks, MosaicML Streaming and MLflow
    *("GCS_SECRET", "GOOGLE_OAUTH_ACCESS_TOKEN", "DATABRICKS_TOKEN", "DATABRICKS_CLIENT_SECRET"),
    *("MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN", "HF_TOKEN"),
]
#: Options by URL: what the libraries call secrets, also within other options.
OPTIONS: list[tuple[str, dict[str, Any]]] = [
    *(("s3://b/d", {name: MARK}) for name in ("secret", "token", "password")),
    ("s3://b/d", {"client_kwargs": {"aws_secret_access_key": MARK}}),
    ("s3://b/d", {"client_kwargs": {"aws_session_token": MARK}}),
    ("s3://b/d", {"config_kwargs": {"proxies": {"https": f"http://me:{MARK}@proxy"}}}),
    ("s3://b/d", {"endpoint_url": f"https://me:{MARK}@store.example"}),
    *(
        ("abfss://c@a.dfs.core.windows.net/d", {name: MARK})
        for name in ("account_key", "sas_token")
    ),
    *(("abfss://c@a.dfs.core.windows.net/d", {n: MARK}) for n in ("client_secret", "credential")),
    ("abfss://c@a.dfs.core.windows.net/d", {"connection_string": f"A=b;AccountKey={MARK};C=d"}),
    *(("gs://b/d", {name: MARK}) for name in ("token", "access_token")),
    ("hdfs://h/d", {"password": MARK}),
]
#: URLs whose parts are secret.
URLS = [
    f"https://host/d?sv=1&sig={MARK}&se=2",
    f"https://host/d?X-Amz-Signature={MARK}",
    f"https://host/d?a=1&X-Amz-Security-Token={MARK}#part",
    f"https://host/d?X-Goog-Signature={MARK}",
    f"sftp://me:{MARK}@host/d",
]


@pytest.mark.parametrize("form", ["{}", "Name=a;AccountKey={};Suffix=b", "me:{}"])
def test_values_of_secret_variables_are_hidden_in_messages(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = []
    for name in VARIABLES:
        with monkeypatch.context() as patch:
            patch.setenv(name, form.format(MARK))
            quoted = [form.format(MARK), *([MARK] if ";" in form else [])]
            texts = [urls.scrub(f"denied: {text} is wrong", {}) for text in quoted]
            shown += [name for text in texts if MARK in text or "is wrong" not in text]
    assert shown == []


@pytest.mark.parametrize(("url", "options"), OPTIONS, ids=str)
def test_values_of_secret_options_are_hidden_and_not_pickled(
    url: str, options: dict[str, Any]
) -> None:
    place = Location(url, options)
    texts = [repr(place), str(place)]
    assert not [text for text in texts if MARK in text]
    assert MARK not in urls.scrub(f"denied: {MARK} is wrong", options)
    with pytest.raises(InvalidArgumentError, match="would be pickled") as caught:
        pickle.dumps(place)
    assert MARK not in str(caught.value)
    with pytest.raises(StorageError) as failed, urls.storage_faults(url, options):
        raise OSError(f"denied: {options} {MARK}")
    assert MARK not in str(failed.value)


@pytest.mark.parametrize("url", URLS)
def test_secret_in_url_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(InvalidArgumentError, match="contains a secret") as caught:
        Location.of(url)
    assert MARK not in str(caught.value)
