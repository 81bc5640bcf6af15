"""General helpers, independent of data: threads, optional libraries, argument checks."""

from __future__ import annotations

from mdstorm_backend.base.arguments import Argument, declared
from mdstorm_backend.base.cached import cached_property
from mdstorm_backend.base.checks import (
    check_flag,
    check_function,
    check_integer,
    check_list,
    check_mapping,
    check_names,
    check_one_of,
    check_required_integer,
    check_text,
    choose_among,
    did_you_mean,
    is_integer,
    name_function,
    naming,
    parse_json,
    suggests_instead,
    suggests_keywords,
    unknown_keyword,
    warn_user,
)
from mdstorm_backend.base.iteration import Iteration
from mdstorm_backend.base.optional import require, when_loaded, wrap
from mdstorm_backend.base.own_context import OwnContext
from mdstorm_backend.base.plain_files import open_plain
from mdstorm_backend.base.pools import map_files
from mdstorm_backend.base.work_ahead import PassThreads

__all__ = [
    "Argument",
    "Iteration",
    "OwnContext",
    "PassThreads",
    "cached_property",
    "check_flag",
    "check_function",
    "check_integer",
    "check_list",
    "check_mapping",
    "check_names",
    "check_one_of",
    "check_required_integer",
    "check_text",
    "choose_among",
    "declared",
    "did_you_mean",
    "is_integer",
    "map_files",
    "name_function",
    "naming",
    "open_plain",
    "parse_json",
    "require",
    "suggests_instead",
    "suggests_keywords",
    "unknown_keyword",
    "warn_user",
    "when_loaded",
    "wrap",
]
