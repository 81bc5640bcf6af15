"""Azure Blob Storage."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any

from mdstorm_backend.errors import CredentialsError
from mdstorm_backend.storage.stores.store import Lent, Store

#: Environment variables that delta-rs prefers to a SAS token in its options.
_PREFERRED = (
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_ACCESS_KEY",
    "AZURE_STORAGE_MASTER_KEY",
    "AZURE_STORAGE_TOKEN",
)


class Azure(Store):
    """The store of ``abfss://container@account.dfs.core.windows.net/path``."""

    schemes = ("abfs", "abfss", "az")
    name = "Azure storage"
    variables = (
        "AZURE_STORAGE_CONNECTION_STRING",
        "AZURE_STORAGE_ACCOUNT_NAME",
        "AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_SAS_TOKEN",
        "AZURE_STORAGE_TENANT_ID",
        "AZURE_STORAGE_CLIENT_ID",
        "AZURE_STORAGE_CLIENT_SECRET",
        "AZURE_ACCOUNT_NAME",
        "AZURE_ACCOUNT_ACCESS_KEY",
    )
    elsewhere = "the identity of this machine or of `az login`"
    to_set = (
        "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, or "
        "AZURE_STORAGE_CONNECTION_STRING"
    )
    extra = "azure"
    secrets = frozenset(
        {
            *("account_key", "connection_string", "credential", "client_secret"),
            *("aad_token", "sas_token", "AZURE_STORAGE_CONNECTION_STRING"),
            *("AZURE_ACCOUNT_ACCESS_KEY", *_PREFERRED),
        }
    )
    absences = frozenset({"ResourceNotFoundError"})
    refusals = frozenset({"ClientAuthenticationError", "CredentialUnavailableError"})
    refusing = (
        "must provide either a connection_string or account_name with credentials",
        "public access is not permitted",
    )
    expiring = (
        "signature has expired",
        "signature not valid in the specified time frame",
        "token is expired",
    )
    refusing_unclearly = ("failed to authenticate the request",)
    deltalake = "lent"
    delta_names = {  # noqa: RUF012 - a constant
        "account_name": "AZURE_STORAGE_ACCOUNT_NAME",
        "account_key": "AZURE_STORAGE_ACCOUNT_KEY",
        "sas_token": "AZURE_STORAGE_SAS_TOKEN",
        "tenant_id": "AZURE_STORAGE_TENANT_ID",
        "client_id": "AZURE_STORAGE_CLIENT_ID",
        "client_secret": "AZURE_STORAGE_CLIENT_SECRET",
        "aad_token": "AZURE_STORAGE_TOKEN",
        "anon": "AZURE_SKIP_SIGNATURE",
        "AccountName": "AZURE_STORAGE_ACCOUNT_NAME",
        "AccountKey": "AZURE_STORAGE_ACCOUNT_KEY",
        "BlobEndpoint": "AZURE_STORAGE_ENDPOINT",
        "SharedAccessSignature": "AZURE_STORAGE_SAS_TOKEN",
    }

    def options_in_environment(self, url: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the account and key from MosaicML Streaming's variables.

        They are not used if the caller specifies a different account, or any credentials.
        """
        name = os.environ.get("AZURE_ACCOUNT_NAME")
        key = os.environ.get("AZURE_ACCOUNT_ACCESS_KEY")
        is_other = options.get("account_name", name) != name
        if not name or is_other or not self.secrets.isdisjoint(options):
            return {}
        return {"account_name": name, **({"account_key": key} if key else {})}

    def endpoint(self, filesystem: Any) -> str:
        """Return the endpoint of the client."""
        return str(filesystem.service_client.url)

    def open_lent(self, kind: Any, arguments: dict[str, Any], lent: Lent) -> Any:
        """Return a file system that signs with lent signatures, or sends lent tokens."""
        from azure.core.credentials import AccessToken, AzureSasCredential

        class Signature(AzureSasCredential):
            @property
            def signature(self) -> str:
                return str(lent()["sas_token"])

        class Token:
            async def get_token(self, *_: str, **__: Any) -> AccessToken:
                # With 0 as the time of expiry, the client asks for a token before each request.
                return AccessToken((await asyncio.to_thread(lent))["aad_token"], 0)

            async def close(self) -> None:
                """Do nothing: there is no connection."""

            async def __aenter__(self) -> Token:
                return self

            async def __aexit__(self, *_: object) -> None:
                """Do nothing."""

        credential = Signature("renewed") if "sas_token" in lent() else Token()
        given = {**arguments, "credential": credential, "anon": False}
        fs = kind(**given, skip_instance_cache=True)
        if fs.connection_string is not None:  # taken from the environment
            fs.connection_string = None
            fs.do_connect()
        return fs

    def delta_options(
        self, url: str, options: Mapping[str, Any], *, is_lent: bool
    ) -> tuple[str, dict[str, str]]:
        """Return the options; as in adlfs, credentials override ``anon``."""
        if is_lent and (preferred := [name for name in _PREFERRED if os.environ.get(name)]):
            raise CredentialsError(
                f"deltalake would read the table {url} with {preferred[0]} from the environment "
                "instead of its catalog's credentials: unset this variable",
                url=url,
            )
        connection = "" if is_lent else str(options.get("connection_string") or "")
        parts = dict(part.split("=", 1) for part in connection.split(";") if "=" in part)
        found = self._renamed({**parts, **options})
        secrets = {"AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_TOKEN"}
        if found.keys() & {*secrets, "AZURE_STORAGE_CLIENT_SECRET", "AZURE_STORAGE_TOKEN"}:
            found.pop("AZURE_SKIP_SIGNATURE", None)
        return url, found
