"""HTTP servers in threads of the test process that record requests and can simulate faults."""

import threading
from collections.abc import Callable, Iterable
from typing import Any

from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

#: Types that the standard library has had since Python 3.11.
WSGIEnvironment = dict[str, Any]
StartResponse = Callable[..., Any]
WSGIApp = Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]
#: A function that returns a response to send instead of the server's, or None.
Fault = Callable[[str, str], "WSGIApp | None"]


class _Silent(WSGIRequestHandler):
    def log(self, *_: Any) -> None:
        pass


class Server:
    """A WSGI application on a port of localhost, or of another address on this machine.

    Attributes
    ----------
    requests : list of tuple of str
        Method and path of each request so far.
    fault : callable or None
        Called with each request; if it returns a response, the application is not called.
    """

    def __init__(self, app: WSGIApp, address: str = "127.0.0.1") -> None:
        self._app = app
        self.requests: list[tuple[str, str]] = []
        self.fault: Fault | None = None
        self._server: BaseWSGIServer = make_server(
            address, 0, self.answer, threaded=True, request_handler=_Silent
        )
        self._server.daemon_threads = True  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://{self._server.host}:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def reset(self) -> None:
        self.requests.clear()
        self.fault = None

    def count(self, method: str, ending: str = "") -> int:
        """Return the number of requests with this method whose path has this ending."""
        return sum(m == method and path.endswith(ending) for m, path in list(self.requests))

    def answer(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        self.requests.append((method, path))
        app = self.fault(method, path) if self.fault else None
        return (app or self._app)(environ, start)


def respond(status: str, body: bytes = b"", *headers: tuple[str, str]) -> WSGIApp:
    """Return an application with the same response to every request."""

    def app(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        start(status, [("Content-Length", str(len(body))), *headers])
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    return app


def cut_off(app: WSGIApp, keep: int) -> WSGIApp:
    """Return an application that shortens each response to `keep` bytes, with a matching length."""

    def shortened(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        def start_shortened(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            left_out = ("content-length", "etag", "x-amz-checksum")
            kept = [(n, v) for n, v in headers if not n.lower().startswith(left_out)]
            return start(status, [*kept, ("Content-Length", str(keep))], *rest)

        return [b"".join(app(environ, start_shortened))[:keep]]

    return shortened
