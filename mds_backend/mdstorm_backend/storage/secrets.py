"""Credentials stay in their process: none is pickled, printed or logged."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from mdstorm_backend.errors import InvalidArgumentError

__all__ = ["check_no_secrets"]

_SECRET = re.compile(r"key|secret|token|password|credential", re.IGNORECASE)


def check_no_secrets(storage_options: dict[str, Any]) -> None:
    """Refuse options that must not travel to other processes.

    Raises
    ------
    InvalidArgumentError
        If a name looks like a credential's; the message holds no value.
    """
    secrets = sorted(_secret_names(storage_options))
    if secrets:
        raise InvalidArgumentError(
            f"storage_options hold {secrets}, which would be pickled and sent to the Spark "
            "workers. Give the workers credentials of their own, through their environment, an "
            "instance profile or the cluster's configuration, and leave these options out"
        )


def _secret_names(options: dict[str, Any]) -> Iterator[str]:
    for name, value in options.items():
        if isinstance(value, dict):
            yield from _secret_names(value)
        elif _SECRET.search(str(name)):
            yield str(name)
