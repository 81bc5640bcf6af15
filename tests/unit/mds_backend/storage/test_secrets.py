"""No provider's secrets appear in a location's pickle, repr or copy, in logs or in errors."""

import copy
import json
import logging
import pickle
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import pytest
from tests.kit.servers.gcs import GoogleServer
from tests.kit.servers.http import Server, StartResponse, WSGIEnvironment, respond
from tests.kit.servers.s3 import BUCKET

from mdstorm_backend.catalogs.vending import lease_of_iceberg, lease_of_unity
from mdstorm_backend.errors import CredentialsError, MDStormError
from mdstorm_backend.storage import Location
from mdstorm_backend.storage.credentials import CredentialProvider, Lease
from mdstorm_backend.tables import AsOf
from mdstorm_backend.tables.delta import open_delta

pytestmark = pytest.mark.usefixtures("no_credentials", "fresh_filesystems")

MARK = "seCret0fTheStore"
KEYS = {"access_key_id": MARK, "secret_access_key": MARK, "session_token": MARK}
SAS = f"sv=2024-08-04&sig={MARK}"
NOWHERE = "http://127.0.0.1:9"
#: A table's URL, its storage options, and the credentials returned by a catalog.
UNITY: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "s3": ("s3://b/t", {"endpoint_url": NOWHERE}, {"aws_temp_credentials": KEYS}),
    "r2": ("s3://b/t", {"endpoint_url": NOWHERE}, {"r2_temp_credentials": KEYS}),
    "sas": (
        "abfss://c@a.dfs.core.invalid/t",
        {"account_name": "a", "account_host": "127.0.0.1:9"},
        {"azure_user_delegation_sas": {"sas_token": SAS}},
    ),
    "aad": (
        "abfss://c@a.dfs.core.invalid/t",
        {"account_name": "a", "account_host": "127.0.0.1:9"},
        {"azure_aad": {"aad_token": MARK}},
    ),
    "gcs": ("gs://b/t", {"endpoint_url": NOWHERE}, {"gcp_oauth_token": {"oauth_token": MARK}}),
}
ICEBERG: dict[str, tuple[str, dict[str, Any], dict[str, str]]] = {
    "s3": (
        *UNITY["s3"][:2],
        {"s3.access-key-id": MARK, "s3.secret-access-key": MARK, "s3.session-token": MARK},
    ),
    "sas": (*UNITY["sas"][:2], {"adls.sas-token.a": SAS}),
    "gcs": (*UNITY["gcs"][:2], {"gcs.oauth2.token": MARK}),
}


@dataclass(frozen=True)
class Vendor(CredentialProvider):
    """Provides the credentials that are defined above."""

    catalog: str
    store: str

    def log_in(self) -> None:
        """Do nothing, because anyone may request these credentials."""

    def fetch(self) -> Lease:
        if self.catalog == "unity":
            return lease_of_unity(UNITY[self.store][2], str(self))
        return lease_of_iceberg(ICEBERG[self.store][2], str(self))


def location_of(catalog: str, store: str) -> Location:
    pytest.importorskip({"sas": "adlfs", "aad": "adlfs", "gcs": "gcsfs"}.get(store, "s3fs"))
    url, options, _ = {"unity": UNITY, "iceberg": ICEBERG}[catalog][store]
    return Location(url, options, credentials=Vendor(catalog, store))


@pytest.mark.parametrize(
    ("catalog", "store"),
    [*(("unity", store) for store in UNITY), *(("iceberg", store) for store in ICEBERG)],
)
def test_provider_secrets_are_not_in_pickles_copies_or_reprs(catalog: str, store: str) -> None:
    place = location_of(catalog, store)
    provider = place.credentials
    assert provider is not None
    lease = provider.current()
    assert MARK in str(dict(lease.options))
    texts = [repr(one) for one in (place, provider, lease, copy.deepcopy(place), vars(place))]
    texts += [str(pickle.dumps(one)) for one in (place, provider)]
    assert not [text[:300] for text in texts if MARK in text]


def echo(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
    """Deny access with a response that quotes the credentials."""
    sent = [environ.get("HTTP_X_AMZ_SECURITY_TOKEN", ""), environ.get("HTTP_AUTHORIZATION", "")]
    text = f"these are refused: {' '.join(sent)}"
    body = f"<Error><Code>AccessDenied</Code><Message>{text}</Message></Error>"
    kind = "xml"
    if "/storage/" in environ["PATH_INFO"]:  # Google's API
        body, kind = json.dumps({"error": {"code": 403, "message": text}}), "json"
    answer = respond("403 Forbidden", body.encode(), ("Content-Type", f"application/{kind}"))
    return answer(environ, start)


@pytest.mark.long
@pytest.mark.parametrize(
    ("catalog", "store"),
    [("unity", "s3"), ("unity", "r2"), ("unity", "gcs"), ("iceberg", "s3"), ("iceberg", "gcs")],
)
def test_secrets_quoted_by_a_store_are_not_in_errors_or_logs(
    catalog: str, store: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="mdstorm_backend")
    with closing(Server(echo)) as server:
        place = location_of(catalog, store)
        place = replace(place, storage_options={"endpoint_url": server.url})
        texts = []
        for read in (lambda: place.read("a"), place.list_files, lambda: open_delta(place, AsOf())):
            with pytest.raises(MDStormError) as caught:
                read()
            texts += [str(caught.value), repr(caught.value.__cause__)]
        assert server.requests
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("mdstorm")]
    assert not [text[:300] for text in [*texts, *ours] if MARK in text]


def test_account_token_quoted_by_a_store_is_not_in_the_error(gs: GoogleServer) -> None:
    """The store's library obtains the token, which is not in the options or the environment."""
    gs.token = MARK
    gs.fault = lambda method, path: echo if "/storage/" in path else None
    with pytest.raises(CredentialsError, match="Forbidden") as caught:
        Location.of(f"gs://{BUCKET}/x").read("a")
    assert MARK not in str(caught.getrepr(style="native"))
