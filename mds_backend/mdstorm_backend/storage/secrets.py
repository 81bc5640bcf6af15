"""Keep credentials in their process: they are never pickled, printed or logged."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

from mdstorm_backend.errors import InvalidArgumentError

_SECRET = re.compile(
    r"key|secret|token|passw|passphrase|credential|connection_string|signature|^sas$",
    re.IGNORECASE,
)
#: Environment variables whose values are secret; access key ids and file paths are not.
_SECRET_VARIABLE = re.compile(
    r"SECRET|TOKEN|PASSW|ACCOUNT_(ACCESS_)?KEY|CONNECTION_STRING", re.IGNORECASE
)
#: The password of ``scheme://user:password@host``, and the values of signed query strings.
_SECRET_IN_URL = re.compile(
    r"(?P<user>://[^/@:]*:)[^/@]+(?=@)"
    r"|(?P<name>[?&](sig|X-Amz-Signature|X-Amz-Security-Token|X-Goog-Signature|token)=)[^&#]+",
    re.IGNORECASE,
)
_HIDDEN = "***"
#: Shorter values may be ordinary words, which must not be redacted.
_SHORTEST_SECRET = 6


def check_no_secrets(storage_options: dict[str, Any]) -> None:
    """Refuse options that must not travel to other processes.

    Raises
    ------
    InvalidArgumentError
        If a name looks like a credential's; the message does not contain the value.
    """
    secrets = sorted({name for name, _ in _secrets(storage_options)})
    if secrets:
        raise InvalidArgumentError(
            f"storage_options hold {secrets}, which would be pickled and sent to other processes, "
            "such as Spark's workers. Leave these options out, and give those processes their "
            "own credentials, by environment variables, an instance profile or the configuration "
            "of the cluster"
        )


def check_no_secret_in_url(url: str) -> None:
    """Refuse a URL with a password or a signature in it: URLs are printed, logged and pickled.

    Raises
    ------
    InvalidArgumentError
        If it has one; the message does not contain it.
    """
    if redact(url) != url:
        raise InvalidArgumentError(
            f"the URL {redact(url)} holds a secret, and URLs are printed and sent to other "
            "processes. Pass the secret in storage_options, or through the environment"
        )


def redact(url: str) -> str:
    """Return `url` with passwords and signatures in it hidden."""
    return _SECRET_IN_URL.sub(lambda m: (m["user"] or m["name"]) + _HIDDEN, url)


def scrub(text: str, storage_options: dict[str, Any]) -> str:
    """Return `text` with every secret of the options and of the environment hidden."""
    values = {value for _, value in _secrets(storage_options)}
    values.update(value for name, value in os.environ.items() if _SECRET_VARIABLE.search(name))
    for value in sorted(values, key=len, reverse=True):
        if len(value) >= _SHORTEST_SECRET:
            text = text.replace(value, _HIDDEN)
    return redact(text)


def _secrets(options: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in options.items():
        if isinstance(value, dict):
            yield from _secrets(value)
        elif _SECRET.search(str(name)):
            yield str(name), str(value)
        elif isinstance(value, str) and redact(value) != value:
            yield str(name), value
