"""S3 on localhost, provided by moto's server in a thread of the test process."""

import urllib.request
from datetime import timedelta
from functools import cache
from typing import Any

from tests.kit.servers.http import Server

BUCKET = "bucket"
#: The account for which moto accepts any credentials.
ACCOUNT = "123456789012"


class S3Server(Server):
    """The server, with one bucket.

    It accepts any credentials until `check_credentials` is called.
    """

    def __init__(self, address: str = "127.0.0.1") -> None:
        import botocore.session
        from botocore.loaders import create_loader
        from moto.server import DomainDispatcherApplication, create_backend_app

        # Each test has new clients. They share what botocore reads from its large JSON files.
        botocore.session.create_loader = cache(create_loader)
        self.app = DomainDispatcherApplication(create_backend_app)
        super().__init__(self.app, address)
        self.request("PUT", f"/{BUCKET}")

    def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        request = urllib.request.Request(self.url + path, data=body, method=method)
        request.add_header("Content-Type", "application/octet-stream")
        with urllib.request.urlopen(request, timeout=30) as response:
            found: bytes = response.read()
        return found

    @property
    def keys(self) -> Any:
        from moto.s3.models import s3_backends

        return s3_backends[ACCOUNT]["aws"].buckets[BUCKET].keys

    def objects(self, prefix: str) -> dict[str, bytes]:
        """Return the objects under a prefix that ends with a slash, by name without the prefix."""
        return {k.removeprefix(prefix): v.value for k, v in self._below(prefix)}

    def grow_old(self, prefix: str) -> None:
        """Make the objects under a prefix two days older."""
        for _, key in self._below(prefix):
            key.last_modified -= timedelta(days=2)

    def remove(self, prefix: str) -> None:
        """Remove all objects under a prefix."""
        for name, _ in self._below(prefix):
            self.keys.pop(name)

    def _below(self, prefix: str) -> list[tuple[str, Any]]:
        return [(name, key) for name, key in self.keys.items() if name.startswith(prefix)]

    def check_credentials(self, check: bool) -> None:
        """Accept any credentials, or only those of IAM users, of whom there are none at first."""
        self.request("POST", "/moto-api/reset-auth", b"0" if check else b"inf")

    def options(self) -> dict[str, Any]:
        """Return the `storage_options` for this server, without credentials."""
        return {"endpoint_url": self.url}
