"""An S3 server that accepts only its own session tokens, within their prefix and lifetime.

It responds like S3. An expired token gets 400, without an error code for HEAD. A key outside the
prefix gets 403, and so does a request whose signature is more than 15 minutes off. A missing key
also gets 403, unless the token allows listing the whole bucket.
"""

import secrets
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any
from urllib.parse import parse_qs, unquote

from tests.kit.servers.http import Server, StartResponse, WSGIEnvironment, respond
from tests.kit.servers.s3 import BUCKET, S3Server

#: Part of every secret, so that a test can search for all of them.
MARK = "vended-secret"
#: Largest accepted difference between the client's and the store's clock, in seconds.
_MOST_SKEW = 900
_TEXTS = {
    "ExpiredToken": "The provided token has expired.",
    "RequestTimeTooSkewed": "The difference between the request time and the current time is too "
    "large.",
}


@dataclass(frozen=True)
class Token:
    """Credentials for a prefix, which ends with a slash."""

    prefix: str
    expires: float
    key: str
    secret: str
    session: str

    def keys(self) -> dict[str, str]:
        """Return the credentials as s3fs options."""
        return {"key": self.key, "secret": self.secret, "token": self.session}


class GuardedS3(Server):
    """Checks tokens, and forwards requests with valid ones to moto's server.

    Attributes
    ----------
    handed_out : list of Token
        The issued tokens, in the order of the requests.
    expired : int
        Requests that were refused because their token had expired.
    shows_missing : bool
        Whether missing keys get 404.
    skew : float
        How far the store's clock is ahead, in seconds.
    outside : list of str
        Paths that were refused because they are outside the token's prefix.
    hosts : list of str
        Host of each request for objects.
    seconds_per_object : float
        How long the store takes to send an object; objects are sent one after another.
    """

    def __init__(self, behind: S3Server) -> None:
        self._behind = behind
        self._lock, self._link = threading.Lock(), threading.Lock()
        self.clear()
        super().__init__(self._guard)

    def clear(self) -> None:
        self.handed_out: list[Token] = []
        self.expired, self.shows_missing = 0, True
        self.outside: list[str] = []
        self.hosts: list[str] = []
        self.skew = self.seconds_per_object = 0.0

    def reset(self) -> None:
        super().reset()
        self.clear()

    def hand_out(self, prefix: str, seconds: float) -> Token:
        """Issue a token for a prefix in the bucket; the prefix must end with a slash."""
        parts = [f"{MARK}-{secrets.token_hex(8)}" for _ in range(3)]
        token = Token(prefix, time.time() + seconds, *parts)
        with self._lock:
            self.handed_out.append(token)
        return token

    def _guard(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], unquote(environ["PATH_INFO"])
        # Clients request the bucket's region without a token.
        if method == "HEAD" and path.strip("/") == BUCKET:
            return self._behind.app(environ, start)
        self.hosts.append(environ["HTTP_HOST"])
        query = parse_qs(environ.get("QUERY_STRING", ""))
        given = (
            environ.get("HTTP_X_AMZ_SECURITY_TOKEN") or query.get("X-Amz-Security-Token", [""])[0]
        )
        signed = environ.get("HTTP_X_AMZ_DATE") or query.get("X-Amz-Date", [""])[0]
        now = datetime.now(timezone.utc).timestamp() + self.skew
        if signed and abs(_seconds(signed) - now) > _MOST_SKEW:
            return _refuse(method, "403 Forbidden", "RequestTimeTooSkewed")(environ, start)
        token = next((one for one in self.handed_out if one.session == given), None)
        if token is None:
            return _refuse(method, "403 Forbidden", "InvalidAccessKeyId")(environ, start)
        if time.time() > token.expires:
            self.expired += 1
            return _refuse(method, "400 Bad Request", "ExpiredToken")(environ, start)
        key = path.removeprefix(f"/{BUCKET}").lstrip("/")
        wanted = key or query.get("prefix", [""])[0]
        if not f"{wanted}/".startswith(token.prefix):
            self.outside.append(wanted)
            return _refuse(method, "403 Forbidden", "AccessDenied")(environ, start)
        if key and key not in self._behind.keys and not self.shows_missing:
            return _refuse(method, "403 Forbidden", "AccessDenied")(environ, start)
        if method == "GET" and key and self.seconds_per_object:
            with self._link:
                time.sleep(self.seconds_per_object)
        return self._behind.app(environ, start)


def _seconds(date: str) -> float:
    """Return the Unix time of a date in the format used by signatures."""
    return datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc).timestamp()


def _refuse(method: str, status: str, code: str) -> Any:
    text = _TEXTS.get(code, "Access Denied")
    body = f"<Error><Code>{code}</Code><Message>{text}</Message></Error>".encode()
    content = b"" if method == "HEAD" else body
    return respond(status, content, ("Content-Type", "application/xml"))
