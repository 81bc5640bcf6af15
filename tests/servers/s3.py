"""S3 on localhost: moto's server, in a thread of the tests' process."""

import urllib.request
from typing import Any

from tests.servers.http import Server

BUCKET = "bucket"


class S3Server(Server):
    """The server, with one bucket in it.

    It accepts all credentials until `check_credentials` is called.
    """

    def __init__(self, address: str = "127.0.0.1") -> None:
        from moto.server import DomainDispatcherApplication, create_backend_app

        self.app = DomainDispatcherApplication(create_backend_app)
        super().__init__(self.app, address)
        self.request("PUT", f"/{BUCKET}")

    def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        request = urllib.request.Request(self.url + path, data=body, method=method)
        request.add_header("Content-Type", "application/octet-stream")
        with urllib.request.urlopen(request, timeout=30) as response:
            found: bytes = response.read()
        return found

    def check_credentials(self, check: bool) -> None:
        """Refuse credentials that the server does not know: it knows none."""
        self.request("POST", "/moto-api/reset-auth", b"0" if check else b"inf")

    def options(self) -> dict[str, Any]:
        """What `storage_options` need, apart from credentials."""
        return {"endpoint_url": self.url}
