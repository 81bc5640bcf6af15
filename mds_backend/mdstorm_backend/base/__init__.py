"""Threads, optional libraries and checks of arguments: helpers that know nothing of data."""

from __future__ import annotations

from mdstorm_backend.base.cached_property import cached_property
from mdstorm_backend.base.checks import (
    check_flag,
    check_function,
    check_integer,
    check_list,
    check_mapping,
    check_one_of,
    check_text,
    did_you_mean,
    suggests_keywords,
)
from mdstorm_backend.base.integers import is_integer
from mdstorm_backend.base.optional import require
from mdstorm_backend.base.own_context import OwnContext
from mdstorm_backend.base.pass_threads import PassThreads
from mdstorm_backend.base.plain_json import parse_json
from mdstorm_backend.base.user_warnings import warn_user
from mdstorm_backend.base.when_loaded import when_loaded, wrap

__all__ = [
    "OwnContext",
    "PassThreads",
    "cached_property",
    "check_flag",
    "check_function",
    "check_integer",
    "check_list",
    "check_mapping",
    "check_one_of",
    "check_text",
    "did_you_mean",
    "is_integer",
    "parse_json",
    "require",
    "suggests_keywords",
    "warn_user",
    "when_loaded",
    "wrap",
]
