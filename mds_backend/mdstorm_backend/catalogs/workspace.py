"""Requests to a Databricks workspace, with the unified authentication of databricks-sdk."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from configparser import ConfigParser
from typing import Any

from mdstorm_backend import errors
from mdstorm_backend.base import require
from mdstorm_backend.storage.urls import check_endpoint, scrub

#: Seconds for which the SDK retries a request when the workspace answers 429 or 503.
PATIENCE = 60
#: Maximum length of the workspace's error text in a message.
_LONGEST_TEXT = 300
#: Matches an Iceberg catalog's message in an SDK error: the SDK does not parse the response, but
#: appends all of it.
_MESSAGE = re.compile(r'unable to parse response.*"message": "((?:[^"\\]|\\.)*)"', re.DOTALL)
#: Matches the configuration that the SDK appends to errors about log-in and permissions.
_CONFIGURATION = re.compile(r"\. Config: \w+=.*", re.DOTALL)
#: Clients and their hosts, by process, requested host and hash of the environment variables.
clients: dict[tuple[int, str | None, int], tuple[Any, str]] = {}


class WorkspaceClient:
    """Sends requests to a workspace; holds a token, so it must not be printed or pickled.

    Parameters
    ----------
    host : str, optional
        URL of the workspace; by default the configured one.

    Raises
    ------
    MissingDependencyError
        If databricks-sdk is not installed.
    CredentialsError
        If no workspace or no way to log in is configured.
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
        """Return the parsed response to a GET request."""
        return self._request("GET", path, query=dict(query), headers=headers)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return the parsed response to a POST request."""
        return self._request("POST", path, body=dict(body), headers={})

    def _request(self, method: str, path: str, *, headers: Mapping[str, str], **what: Any) -> Any:
        """Send a request.

        Raises
        ------
        FileNotFoundError
            If the workspace has no such object.
        PermissionError
            If the workspace denies access; the message is its response.
        CredentialsError
            If the workspace rejects this process's credentials.
        StorageError
            If the request fails.
        """
        sent = {"Accept": "application/json", **headers}
        try:
            return self._client.do(method, path, headers=sent, **what)
        except Exception as error:
            kinds = {kind.__name__ for kind in type(error).__mro__}
            text = _text(error)
            if "NotFound" in kinds:
                raise FileNotFoundError(text) from None
            if "PermissionDenied" in kinds:
                raise PermissionError(text) from None
            if "Unauthenticated" in kinds:
                raise errors.CredentialsError(
                    f"the Databricks workspace {self.host} rejects the credentials of this process "
                    f"({text}). Renew DATABRICKS_TOKEN, or the profile in ~/.databrickscfg",
                    url=self.host,
                ) from None
            raise errors.StorageError(
                f"the catalog of {self.host} failed ({type(error).__name__}: {text}). Check the "
                "network, or try again later",
                url=self.host,
            ) from None


def _configured(core: Any, host: str | None) -> Any:
    """Return this process's configuration, or one for `host` if that is not the configured host.

    If a host is passed to the SDK, it ignores the default profile of ~/.databrickscfg, and sends
    the token of a named profile to that host.
    """
    configured = _url(os.environ.get("DATABRICKS_HOST") or _host_of_profile(core))
    if known := host or configured:
        check_endpoint(known)  # an unreachable host would block `Config` for a minute
    if host is None or _url(host) == configured:
        found = core.Config(retry_timeout_seconds=PATIENCE)
        if not found.host:
            raise ValueError("no host is configured")
        if host in (None, found.host):
            return found
    return core.Config(host=host, profile="", retry_timeout_seconds=PATIENCE)


def _host_of_profile(core: Any) -> str | None:
    """Return the host in the profile that the SDK uses, without contacting the host."""
    profile = os.environ.get("DATABRICKS_CONFIG_PROFILE")
    variables = [one.env for one in core.Config.attributes() if one.env and one.auth]
    if not profile and any(map(os.environ.get, variables)):
        return None
    profiles = ConfigParser(default_section="", interpolation=None)
    path = os.environ.get("DATABRICKS_CONFIG_FILE") or "~/.databrickscfg"
    profiles.read(os.path.expanduser(path))
    chosen = profiles.get("__settings__", "default_profile", fallback="").strip()
    return profiles.get(profile or chosen or "DEFAULT", "host", fallback=None)


def _url(host: str | None) -> str | None:
    """Normalise the URL of a host: ``DATABRICKS_HOST`` may omit the scheme."""
    if not host:
        return None
    return (host if "://" in host else f"https://{host}").rstrip("/").removesuffix(":443")


def _log_in_failed(error: Exception) -> errors.MDStormError:
    """Return the error for a failed log-in to a workspace."""
    text = _text(error)
    if isinstance(error, OSError):
        return errors.StorageError(
            f"the Databricks workspace cannot be reached ({text}). Check DATABRICKS_HOST and the "
            "network"
        )
    return errors.CredentialsError(
        f"tables by name need access to a Databricks workspace ({text}). Set DATABRICKS_HOST and "
        "DATABRICKS_TOKEN, or DATABRICKS_CONFIG_PROFILE for a profile in ~/.databrickscfg. Other "
        "processes, such as workers, need these variables too: a notebook's identity is not "
        "passed on to them"
    )


def _text(error: Exception) -> str:
    """Return an error's first line, to quote in a message, without secrets or configuration."""
    text = str(error)
    if unparsed := _MESSAGE.match(text):
        text = unparsed[1]
    elif error.args and isinstance(error.args[0], dict):
        # Old SDKs pass on the response of an Iceberg catalog as a dict.
        text = str(error.args[0].get("message", text))
    text = scrub(_CONFIGURATION.sub("", text), {}).strip().partition("\n")[0].strip()
    return text[:_LONGEST_TEXT].removesuffix(".") or type(error).__name__
