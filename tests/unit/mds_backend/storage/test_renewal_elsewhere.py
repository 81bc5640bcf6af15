"""Credentials issued by a catalog, for every store with a local server."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from tests.kit.delta_tables import put_table
from tests.kit.servers.azure import ACCOUNT, CONTAINER, AzureServer
from tests.kit.servers.stores import LOCAL, Lend, LocalStore

from mdstorm_backend import errors
from mdstorm_backend.catalogs import names, vending
from mdstorm_backend.storage import Location, renewing
from mdstorm_backend.storage import credentials as renewal
from mdstorm_backend.storage.credentials import CredentialProvider, Lease
from mdstorm_backend.tables import AsOf
from mdstorm_backend.tables.delta import open_delta

pytestmark = pytest.mark.usefixtures("fresh_filesystems")


@dataclass(frozen=True)
class Signer(CredentialProvider):
    """Provides signatures for Azurite, made with its account key."""

    name: str
    server: ClassVar[AzureServer]

    def log_in(self) -> None:
        """Do nothing, because anyone may request these credentials."""

    def fetch(self) -> Lease:
        return Lease({"sas_token": self.server.signature()})


@pytest.fixture
def signed(azure: AzureServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Location:
    """A Delta table on Azurite, with a wrong key in the environment."""
    place = Location.of(f"az://{CONTAINER}/signed/t")
    put_table(place, tmp_path)
    place.child("plain").write("a", [b"content"])
    Signer.server = azure
    wrong = azure.connection_string("c29tZSBzZWNyZXQgdGhhdCBubyBvbmUga25vd3M=")
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", wrong)
    azure.replace_host(monkeypatch)
    return Location(place.url, {"account_name": ACCOUNT}, credentials=Signer("t"))


def test_azure_signature_without_write_access_raises_credentials_error(signed: Location) -> None:
    with pytest.raises(errors.CredentialsError, match="the credentials of Signer"):
        signed.child("plain").write("b", [b"x"])


def test_delta_table_on_azure_is_read_with_a_signature(
    signed: Location, azure: AzureServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key in the environment raises an error, because deltalake would use it instead."""
    monkeypatch.delenv("AZURE_STORAGE_CONNECTION_STRING")
    endpoint = {"BlobEndpoint": f"{azure.url}/{ACCOUNT}", "account_name": ACCOUNT}
    place = Location(signed.url, endpoint, credentials=Signer("t"))
    files = open_delta(place, AsOf()).files
    assert sum((file.num_rows or 0) - len(file.dead) for file in files) == 3
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", azure.key)
    with pytest.raises(errors.CredentialsError, match="AZURE_STORAGE_ACCOUNT_KEY from the env"):
        open_delta(place, AsOf())


@dataclass(frozen=True)
class Lender(CredentialProvider):
    """Provides credentials of a local store, the first of which have expired."""

    name: str
    lend: ClassVar[Lend]
    seconds: ClassVar[list[float]]

    def log_in(self) -> None:
        """Do nothing, because anyone may request these credentials."""

    def fetch(self) -> Lease:
        return Lease(Lender.lend(self.seconds.pop(0)))


@pytest.mark.parametrize(
    "local",
    [
        pytest.param(local, id=local.fixture, marks=[pytest.mark.long] * local.is_lending_slow)
        for local in LOCAL
        if local.lend
    ],
)
def test_expired_credentials_of_a_catalog_are_renewed_and_those_in_environment_ignored(
    local: LocalStore, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert local.lend is not None
    server, url = request.getfixturevalue(local.fixture), local.urls[0]
    Location.of(url, local.options(server)).write("a", [b"content"])
    monkeypatch.setattr(renewal, "LONGEST_YOUTH", 0.0)
    with local.lend(server, monkeypatch) as lend:
        Lender.lend, Lender.seconds = staticmethod(lend), [-60.0, 3600.0]
        place = Location(url, credentials=Lender("t"))
        assert bytes(place.read("a")) == b"content"
        assert not Lender.seconds
        assert place.list_names() == ["a"]
        assert len(renewing.opened_filesystems) == 1


def test_delta_table_with_tokens_for_google_raises_error() -> None:
    Lender.lend, Lender.seconds = staticmethod(lambda seconds: {"token": "t"}), [3600.0]
    place = Location("gs://bucket/t", credentials=Lender("t"))
    with pytest.raises(errors.UnsupportedTableError, match="uses only on Azure storage and S3"):
        open_delta(place, AsOf())


NAME = names.TableName("main", "sales", "orders")


def test_unity_catalog_responses_become_store_options() -> None:
    keys = {"access_key_id": "k", "secret_access_key": "s", "session_token": "t"}
    options = {"key": "k", "secret": "s", "token": "t"}
    end = {"expiration_time": 2_000_000}
    of = vending.lease_of_unity
    assert of({"aws_temp_credentials": keys, **end}, "x").options == options
    assert of({"aws_temp_credentials": keys, **end}, "x").expires == 2000.0
    url = "r2://bucket@account.r2.cloudflarestorage.com/t"
    assert of({"r2_temp_credentials": keys, "url": url}, "x").options == {
        **options,
        "endpoint_url": "https://account.r2.cloudflarestorage.com",
    }
    sas = {"azure_user_delegation_sas": {"sas_token": "?sig=s"}}
    assert of(sas, "x").options == {"sas_token": "sig=s"}
    assert of({"azure_aad": {"aad_token": "t"}}, "x").options == {"aad_token": "t"}
    assert of({"gcp_oauth_token": {"oauth_token": "t"}}, "x").options == {"token": "t"}
    with pytest.raises(errors.StorageError, match=r"x: .*kind of credentials, \['else'\]"):
        of({"else": {}}, "x")


def test_iceberg_configurations_become_store_options() -> None:
    of = vending.lease_of_iceberg
    name = "adls.sas-token.account.dfs.core.windows.net"
    ends = name.replace("sas-token", "sas-token-expires-at-ms")
    lease = of({name: "sig=s", ends: "2000000"}, "x")
    assert (lease.options, lease.expires) == ({"sas_token": "sig=s"}, 2000.0)
    lease = of({"gcs.oauth2.token": "t", "gcs.oauth2.token-expires-at": "2000000"}, "x")
    assert (lease.options, lease.expires) == ({"token": "t"}, 2000.0)
    with pytest.raises(errors.StorageError, match="returned no supported credentials"):
        of({"s3.region": "eu-west-1"}, "x")


def test_longest_prefix_of_storage_credentials_wins() -> None:
    """As the REST catalog spec requires, these credentials also override the configuration."""

    def keys(name: str) -> dict[str, str]:
        return {"s3.access-key-id": name, "s3.secret-access-key": "s", "s3.session-token": "t"}

    prefixes = ("s3", "s3://b/t-other", "s3://b/t/", "s3://b/", "gs", "s3://b/t/data/")
    answer = {
        "metadata-location": "s3://b/t/metadata/1.metadata.json",
        "config": {**keys("of the table"), "client.region": "eu-west-1"},
        "storage-credentials": [{"prefix": one, "config": keys(one)} for one in prefixes],
    }
    config = vending.config_of(answer)
    assert config == {**keys("s3://b/t/"), "client.region": "eu-west-1"}
    answer["metadata-location"] = "abfss://b/t/metadata/1.metadata.json"
    assert vending.config_of(answer)["s3.access-key-id"] == "of the table"
