"""Credentials in a catalog's answer, as options of file systems, and when they expire."""

from math import inf
from typing import Any

import pytest

from mdstorm_backend.catalogs.vending import lease_of_iceberg, lease_of_unity

KEYS = {"access_key_id": "k", "secret_access_key": "s", "session_token": "t"}
AWS = {"key": "k", "secret": "s", "token": "t"}
ICEBERG = {"s3.access-key-id": "k", "s3.secret-access-key": "s", "s3.session-token": "t"}
SAS = "adls.sas-token"
HOST = "a.r2.cloudflarestorage.com"


@pytest.mark.parametrize("stated", [{}, {"expiration_time": None}, {"expiration_time": 5000}])
@pytest.mark.parametrize(
    ("answer", "options"),
    [
        ({"aws_temp_credentials": KEYS}, AWS),
        ({"r2_temp_credentials": KEYS}, AWS),
        (
            {"r2_temp_credentials": KEYS, "url": f"r2://b@{HOST}/x"},
            {**AWS, "endpoint_url": f"https://{HOST}"},
        ),
        ({"azure_user_delegation_sas": {"sas_token": "?sv=1"}}, {"sas_token": "sv=1"}),
        ({"azure_aad": {"aad_token": "a"}}, {"aad_token": "a"}),
        ({"gcp_oauth_token": {"oauth_token": "o"}}, {"token": "o"}),
    ],
    ids=str,
)
def test_credentials_of_unity_catalog_expire_when_it_states(
    answer: dict[str, Any], options: dict[str, Any], stated: dict[str, Any]
) -> None:
    lease = lease_of_unity({**answer, **stated}, "t")
    assert lease.options == options
    assert lease.expires == (5 if stated.get("expiration_time") else inf)


@pytest.mark.parametrize("is_stated", [False, True])
@pytest.mark.parametrize(
    ("config", "expiry", "options"),
    [
        (ICEBERG, "s3.session-token-expires-at-ms", AWS),
        (
            {**ICEBERG, "s3.endpoint": "https://e", "s3.region": "r"},
            "s3.session-token-expires-at-ms",
            {**AWS, "endpoint_url": "https://e", "client_kwargs": {"region_name": "r"}},
        ),
        (
            {**ICEBERG, "s3.region": "other", "client.region": "r"},
            "s3.session-token-expires-at-ms",
            {**AWS, "client_kwargs": {"region_name": "r"}},
        ),
        ({f"{SAS}.a.b": "?sv=1"}, f"{SAS}-expires-at-ms.a.b", {"sas_token": "sv=1"}),
        ({"gcs.oauth2.token": "o"}, "gcs.oauth2.token-expires-at", {"token": "o"}),
    ],
    ids=str,
)
def test_credentials_of_iceberg_tables_expire_when_the_catalog_states(
    config: dict[str, str], expiry: str, options: dict[str, Any], is_stated: bool
) -> None:
    lease = lease_of_iceberg({**config, expiry: "5000"} if is_stated else config, "t")
    assert lease.options == options
    assert lease.expires == (5 if is_stated else inf)
