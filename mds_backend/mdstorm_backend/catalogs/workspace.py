"""Requests to a Databricks workspace, with the unified authentication of databricks-sdk."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from typing import Any

from mdstorm_backend import errors
from mdstorm_backend.base import require
from mdstorm_backend.storage.urls import check_endpoint, scrub

#: Seconds for which the SDK repeats a request to which the workspace answers 429 or 503.
PATIENCE = 60
#: Longest text of the workspace that messages repeat.
_LONGEST_TEXT = 300
#: The message of an Iceberg catalog. The SDK does not parse its answer, and appends all of it.
_MESSAGE = re.compile(r'unable to parse response.*"message": "((?:[^"\\]|\\.)*)"', re.DOTALL)
#: Clients and their hosts by process, requested host and state of the environment.
clients: dict[tuple[int, str | None, int], tuple[Any, str]] = {}


class Workspace:
    """The API of a workspace. Texts and pickles must not hold it, since it has a token.

    Parameters
    ----------
    host : str, optional
        URL of the workspace; by default the configured one.

    Raises
    ------
    MissingDependencyError
        If databricks-sdk is not installed.
    CredentialsError
        If no workspace is configured, or no way to log in.
    StorageError
        If the workspace cannot be reached.
    """

    def __init__(self, host: str | None = None) -> None:
        core = require("databricks.sdk").core
        set_now = sorted((k, v) for k, v in os.environ.items() if k.startswith("DATABRICKS_"))
        place = (os.getpid(), host, hash(tuple(set_now)))
        if place not in clients:
            try:
                config = _configured(core, host)
                config.authenticate()
            except Exception as error:
                raise _log_in_failed(error) from None
            clients[place] = core.ApiClient(config), str(config.host)
        self._client, self.host = clients[place]

    def get(self, path: str, query: Mapping[str, Any], headers: Mapping[str, str] = {}) -> Any:
        """Return the answer to a GET, parsed."""
        return self._request("GET", path, query=dict(query), headers=headers)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return the answer to a POST, parsed."""
        return self._request("POST", path, body=dict(body), headers={})

    def _request(self, method: str, path: str, *, headers: Mapping[str, str], **what: Any) -> Any:
        """Send a request.

        Raises
        ------
        FileNotFoundError
            If the workspace has no such object.
        PermissionError
            If it denies access; with its answer.
        StorageError
            If it fails.
        """
        sent = {"Accept": "application/json", **headers}
        try:
            return self._client.do(method, path, headers=sent, **what)
        except Exception as error:
            kinds = {kind.__name__ for kind in type(error).__mro__}
            text = _text(error)
            if "NotFound" in kinds:
                raise FileNotFoundError(text) from None
            if kinds & {"PermissionDenied", "Unauthenticated"}:
                raise PermissionError(text) from None
            raise errors.StorageError(
                f"the catalog of {self.host} fails ({type(error).__name__}: {text}). Repeat the "
                "request later, and check the network",
                url=self.host,
            ) from None


def _configured(core: Any, host: str | None) -> Any:
    """Return the configuration of this process, or if it is for another host, one for `host`.

    The SDK ignores the default profile of ~/.databrickscfg if a host is passed to it.
    """
    with suppress(ValueError) if host else nullcontext():
        found = _config(core, None)
        if host in (None, found.host):
            return found
    return _config(core, host)


def _config(core: Any, host: str | None) -> Any:
    known = host or os.environ.get("DATABRICKS_HOST", "")
    if known:  # `Config` itself would try to reach it for a minute
        check_endpoint(known if "://" in known else f"https://{known}")
    config = core.Config(host=host, retry_timeout_seconds=PATIENCE)
    if not config.host:
        raise ValueError("no host is configured")
    if not known:
        check_endpoint(config.host)
    return config


def _log_in_failed(error: Exception) -> errors.MDStormError:
    """Return the error for a workspace into which the SDK cannot log in."""
    text = _text(error)
    if isinstance(error, OSError):
        return errors.StorageError(
            f"the Databricks workspace cannot be reached ({text}). Check DATABRICKS_HOST and the "
            "network"
        )
    return errors.CredentialsError(
        f"tables by name need access to a Databricks workspace ({text}). Set DATABRICKS_HOST and "
        "DATABRICKS_TOKEN, or DATABRICKS_CONFIG_PROFILE for a profile of ~/.databrickscfg. Other "
        "processes, such as workers, need these variables too: the identity of a notebook is not "
        "passed on to them"
    )


def _text(error: Exception) -> str:
    """Return the first line of an error, without secrets."""
    text = str(error)
    if unparsed := _MESSAGE.match(text):
        text = unparsed[1]
    text = scrub(text, {}).strip().partition("\n")[0].strip()
    return text[:_LONGEST_TEXT] or type(error).__name__
