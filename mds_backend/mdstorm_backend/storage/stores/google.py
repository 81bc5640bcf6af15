"""Google Cloud Storage."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from mdstorm_backend.storage.stores.s3 import CONNECTIONS
from mdstorm_backend.storage.stores.store import Lent, Store

#: The S3-compatible endpoint, which accepts HMAC keys.
GOOGLE_ENDPOINT = "https://storage.googleapis.com"


class Google(Store):
    """The store of ``gs://bucket/path``.

    With HMAC keys in ``GCS_KEY`` and ``GCS_SECRET``, it is opened through its S3-compatible
    interface.
    """

    schemes = ("gs", "gcs")
    name = "Google Cloud Storage"
    variables = ("GOOGLE_APPLICATION_CREDENTIALS", "GCS_KEY", "GCS_SECRET")
    elsewhere = "`gcloud auth application-default login`, the service account of this machine"
    to_set = "GOOGLE_APPLICATION_CREDENTIALS, or GCS_KEY and GCS_SECRET"
    extra = "gcs"
    secrets = frozenset({"token"})
    refusals = frozenset({"DefaultCredentialsError", "RefreshError"})
    refusing = ("forbidden: ",)
    deltalake = "own"

    def protocol(self, scheme: str, options: Mapping[str, Any]) -> str:
        """Return ``s3`` with HMAC keys, unless the caller passes options for gcsfs."""
        is_hmac = not options and all(map(os.environ.get, ("GCS_KEY", "GCS_SECRET")))
        return "s3" if is_hmac else scheme

    def arguments(self, kind: Any, url: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of gcsfs, or of s3fs with HMAC keys."""
        if "s3" not in kind.protocol:
            return super().arguments(kind, url, options)
        return {
            "key": os.environ["GCS_KEY"],
            "secret": os.environ["GCS_SECRET"],
            "endpoint_url": GOOGLE_ENDPOINT,
            "client_kwargs": {"region_name": "auto"},
            "config_kwargs": {"max_pool_connections": CONNECTIONS, **_without_checksums()},
        }

    def endpoint(self, filesystem: Any) -> str:
        """Return the endpoint of the client."""
        return str(filesystem._location)

    def open_lent(self, kind: Any, arguments: dict[str, Any], lent: Lent) -> Any:
        """Return a file system that sends lent tokens."""
        from google.oauth2.credentials import Credentials

        class RenewedToken(Credentials):
            def apply(self, headers: dict[str, str], token: str | None = None) -> None:
                """Add the token to the headers of a request."""
                given: Any = super().apply
                given(headers, token=str(lent()["token"]))

        begin: Any = RenewedToken
        return kind(**arguments, token=begin("renewed"), skip_instance_cache=True)

    def delta_options(
        self, url: str, options: Mapping[str, Any], *, is_lent: bool
    ) -> tuple[str, dict[str, str]]:
        """Return the options for a service account or for public access."""
        url, token = f"gs://{url.partition('://')[2]}", options.get("token")
        if token == "anon":
            return url, {"GOOGLE_SKIP_SIGNATURE": "true"}
        if isinstance(token, Mapping):
            return url, {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(dict(token))}
        if isinstance(token, str) and token.endswith(".json"):
            return url, {"GOOGLE_SERVICE_ACCOUNT": token}
        return url, {}


def _without_checksums() -> dict[str, Any]:
    """Return options that omit the checksums of newer S3 clients, which Google rejects."""
    from botocore.config import Config

    known = "request_checksum_calculation" in Config.OPTION_DEFAULTS
    return {"request_checksum_calculation": "when_required"} if known else {}
