"""An S3 server on a separate host that records what each host downloads."""

from collections.abc import Callable, Iterable
from itertools import count

from tests.kit.servers.http import StartResponse, WSGIEnvironment
from tests.kit.servers.s3 import BUCKET, S3Server
from tests.slow.cluster.hosts import Host


class Store(S3Server):
    """An S3 server in a thread of this process, in the network of `host`.

    Attributes
    ----------
    sent : list of tuple
        For each response so far, the client's address, the path, and the number of bytes.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self.sent: list[tuple[str, str, int]] = []
        with host.network():
            super().__init__(host.address)

    def answer(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        size = 0
        try:
            for block in super().answer(environ, start):
                size += len(block)
                yield block
        finally:
            self.sent.append((environ["REMOTE_ADDR"], environ["PATH_INFO"], size))

    def bytes_of(self, host: Host, ending: str = ".mds") -> int:
        """Return the number of bytes that a host has downloaded from files with this ending."""
        return sum(
            size
            for address, path, size in list(self.sent)
            if address == host.address and path.endswith(ending)
        )

    def at_upload(self, number: int, ending: str, action: Callable[[], object]) -> None:
        """Call `action` when the upload of the n-th file with this ending begins."""
        arriving = count(1)

        def fault(method: str, path: str) -> None:
            if method == "PUT" and path.endswith(ending) and next(arriving) == number:
                action()

        self.fault = fault

    def put(self, name: str, content: bytes) -> None:
        """Store an object."""
        with self._host.network():
            self.request("PUT", f"/{BUCKET}/{name}", content)

    def forget(self) -> None:
        """Reset the counters."""
        self.reset()
        self.sent.clear()

    @property
    def environment(self) -> dict[str, str]:
        """The variables that programs need to find the store."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "anybody",
            "AWS_SECRET_ACCESS_KEY": "anything",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
