"""Lists on one line in environments of conda: ``dependencies: [python=3.11, {pip: [numpy]}]``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_LIST = re.compile(r"""["']?\b(?P<key>dependencies|build|host|run|pip)["']?[ \t]*:[ \t]*\[""")
_TOKEN = re.compile(
    r""""(?P<double>[^"\n]*)"|'(?P<single>[^'\n]*)'|(?P<open>[\[{])|(?P<close>[\]}])|\#[^\n]*
    |(?P<plain>[^\s"',\[\]{}#:](?:[^,\[\]{}\n#:]|:(?=:|(?<=::)))*)""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class FlowItem:
    """One item: the key of its list, its span without quotes, and whether it has them."""

    key: str
    start: int
    stop: int
    is_quoted: bool


def flow_items(text: str) -> Iterator[FlowItem]:
    """Yield the items of the lists for pip and for conda, but for those of inner lists."""
    for found in _LIST.finditer(text):
        depth = 1
        for token in _TOKEN.finditer(text, found.end()):
            depth += bool(token["open"]) - bool(token["close"])
            if depth == 0:
                break
            group = token.lastgroup or ""
            has_bracket = text[token.end() : token.end() + 1] == "["  # no YAML, without quotes
            if depth == 1 and group in ("double", "single", "plain") and not has_bracket:
                yield FlowItem(found["key"], *token.span(group), group != "plain")
