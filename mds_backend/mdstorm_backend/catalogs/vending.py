"""Credentials that Unity Catalog issues for one table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from mdstorm_backend import errors
from mdstorm_backend.catalogs.names import TableName, read_by_spark
from mdstorm_backend.catalogs.workspace import WorkspaceClient
from mdstorm_backend.storage.credentials import CredentialProvider, Lease
from mdstorm_backend.storage.stores.store import bucket_of

_CREDENTIALS = "/api/2.0/unity-catalog/temporary-table-credentials"
_ICEBERG = "/api/2.1/unity-catalog/iceberg-rest/v1"
#: The header that requests credentials together with the metadata of an Iceberg table.
_DELEGATION = {"X-Iceberg-Access-Delegation": "vended-credentials"}
#: Catalogs that Databricks shares with everyone.
_SHARED = ("samples", "system")


@dataclass(frozen=True)
class _UnityCredentials(CredentialProvider):
    """Credentials that a workspace's Unity Catalog issues for one table.

    Attributes
    ----------
    host : str
        URL of the workspace.
    name : TableName
        The table.
    table_id : str
        Id of the table. A table that is dropped and created again has a different id.
    """

    host: str
    name: TableName
    table_id: str

    def __str__(self) -> str:
        return f"the table {self.name} of {self.host}"

    def log_in(self) -> None:
        """Log in to the workspace; for errors see `WorkspaceClient`."""
        WorkspaceClient(self.host)


class TableCredentials(_UnityCredentials):
    """Credentials for the directory of a Delta or Parquet table."""

    def fetch(self) -> Lease:
        """Obtain new credentials.

        Raises
        ------
        CredentialsError
            If this process cannot log in, or Unity Catalog denies access; the message lists the
            usual causes.
        StorageError
            If the request fails.
        """
        body = {"operation": "READ", "table_id": self.table_id}
        with _explained_refusals(self.name, self.host):
            found = WorkspaceClient(self.host).post(_CREDENTIALS, body)
        return lease_of_unity(found, str(self))


class IcebergCredentials(_UnityCredentials):
    """Credentials for a managed Iceberg table, issued by its Iceberg REST catalog."""

    def fetch(self) -> Lease:
        """Obtain new credentials; for errors see `TableCredentials.fetch`."""
        answer = self._load(_DELEGATION)
        config = config_of(answer)
        point = access_point_of(str(answer["metadata-location"]), config)
        return replace(lease_of_iceberg(config, str(self)), access_point=point)

    def metadata_url(self) -> str:
        """Return the URL of the table's current metadata file; for errors see `fetch`."""
        url = str(self._load({})["metadata-location"])
        return at_access_point(url, self.current().access_point)

    def _load(self, headers: Mapping[str, str]) -> Any:
        name = self.name
        with _explained_refusals(name, self.host):
            workspace = WorkspaceClient(self.host)
            config = workspace.get(f"{_ICEBERG}/config", {"warehouse": name.catalog})
            chosen = {**config.get("defaults", {}), **config.get("overrides", {})}
            prefix = chosen.get("prefix", f"catalogs/{name.catalog}")
            schema, table = quote(name.schema, safe=""), quote(name.table, safe="")
            path = f"{_ICEBERG}/{prefix}/namespaces/{schema}/tables/{table}"
            return workspace.get(path, {}, headers)


def lease_of_unity(answer: Mapping[str, Any], whose: str) -> Lease:
    """Return the credentials in a Unity Catalog response, as fsspec options.

    Raises
    ------
    StorageError
        If the response has no supported credentials; the message begins with `whose`.
    """
    expires = float(answer.get("expiration_time") or "inf") / 1000
    if keys := answer.get("aws_temp_credentials") or answer.get("r2_temp_credentials"):
        options = {
            "key": keys["access_key_id"],
            "secret": keys["secret_access_key"],
            "token": keys["session_token"],
        }
        if "r2_temp_credentials" in answer:
            host = str(answer.get("url", "")).partition("@")[2].partition("/")[0]
            options |= {"endpoint_url": f"https://{host}"} if host else {}
        return Lease(options, expires, access_point=keys.get("access_point") or "")
    if signature := answer.get("azure_user_delegation_sas"):
        return Lease({"sas_token": signature["sas_token"].lstrip("?")}, expires)
    if token := answer.get("azure_aad"):
        return Lease({"aad_token": token["aad_token"]}, expires)
    if token := answer.get("gcp_oauth_token"):
        return Lease({"token": token["oauth_token"]}, expires)
    raise errors.StorageError(
        f"{whose}: the catalog returned an unsupported kind of credentials, {sorted(answer)}. "
        "Read the table with Spark"
    )


def config_of(answer: Mapping[str, Any]) -> dict[str, str]:
    """Return the configuration in an Iceberg catalog's response, with the table's credentials.

    If there are several credentials, the ones with the longest matching prefix are used.
    """
    url = str(answer["metadata-location"])
    listed = answer.get("storage-credentials") or ()
    fitting = [one for one in listed if url.startswith(one["prefix"])]
    longest: dict[str, Any] = max(
        fitting, key=lambda one: len(one["prefix"]), default={"config": {}}
    )
    return {**answer.get("config", {}), **longest["config"]}


def access_point_of(url: str, config: Mapping[str, str]) -> str:
    """Return the access point for an Iceberg table's file, or an empty string if there is none.

    ``s3.access-points.BUCKET`` specifies the access point for files in a bucket. Iceberg's Java
    implementation supports this property; pyiceberg ignores it.
    """
    return config.get(f"s3.access-points.{bucket_of(url)}", "")


def at_access_point(url: str, access_point: str | None) -> str:
    """Return an S3 URL with the access point, if there is one, in place of the bucket."""
    if not access_point:
        return url
    return f"s3://{access_point}/{url.partition('://')[2].partition('/')[2]}"


def lease_of_iceberg(config: Mapping[str, str], whose: str) -> Lease:
    """Return the credentials in an Iceberg table's configuration, as fsspec options.

    Raises
    ------
    StorageError
        If it has no supported credentials; the message begins with `whose`.
    """
    if "s3.access-key-id" in config:
        options: dict[str, Any] = {
            "key": config["s3.access-key-id"],
            "secret": config["s3.secret-access-key"],
            "token": config.get("s3.session-token"),
        }
        if endpoint := config.get("s3.endpoint"):
            options["endpoint_url"] = endpoint
        if region := config.get("client.region") or config.get("s3.region"):
            options["client_kwargs"] = {"region_name": region}
        return Lease(options, _seconds(config, "s3.session-token-expires-at-ms"))
    for name, value in config.items():
        if name.startswith("adls.sas-token") and "expires" not in name:
            expiry = name.replace("adls.sas-token", "adls.sas-token-expires-at-ms")
            return Lease({"sas_token": value.lstrip("?")}, _seconds(config, expiry))
    if token := config.get("gcs.oauth2.token"):
        return Lease({"token": token}, _seconds(config, "gcs.oauth2.token-expires-at"))
    raise errors.StorageError(
        f"{whose}: the catalog returned no supported credentials. Check that "
        "it is allowed to issue credentials. Or open the table by the URL of its metadata file "
        "instead of its name, and pass your own credentials in storage_options"
    )


def _seconds(config: Mapping[str, str], name: str) -> float:
    return float(config.get(name, "inf")) / 1000


@contextmanager
def _explained_refusals(name: TableName, host: str) -> Iterator[None]:
    """Explain Unity Catalog's errors in a ``with`` block that requests credentials.

    A refusal is final, because this is how a table's policies are enforced.
    """
    try:
        yield
    except errors.CredentialsError:
        raise  # logging in failed, which affects every table
    except (FileNotFoundError, PermissionError) as error:
        raise _refused(name, host, str(error)) from None


def _refused(name: TableName, host: str, text: str) -> errors.CredentialsError:
    """Return the error for credentials that Unity Catalog does not issue, with likely causes."""
    said = text.lower().replace("_", " ")
    schema = TableName(name.catalog, name.schema, "")
    causes = {
        "external use schema": (
            f"GRANT EXTERNAL USE SCHEMA ON SCHEMA {str(schema).rpartition('.')[0]} TO `you`, which "
            "only the owner of the catalog may do"
        ),
        "metastore": "an administrator enables External data access for the metastore",
        "polic": "the table has row filters, column masks or policies, which only Spark applies",
        "default storage": "the table is in default storage, which only Databricks reads",
    }
    causes["row filter"] = causes["column mask"] = causes["polic"]
    known = [cause for sign, cause in causes.items() if sign in said]
    if name.catalog in _SHARED or "sharing" in said:
        known = ["only Databricks can read tables that are shared with you"]
    remedy = "; or ".join(dict.fromkeys(known or causes.values()))
    return errors.CredentialsError(
        f"Unity Catalog of {host} does not issue credentials for {name} ({text}): {remedy}. "
        f"{read_by_spark(name)}",
        url=name.url,
    )
