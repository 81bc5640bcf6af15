"""Make the site's page of rules: an index, with the rules' pages as sections.

The changes that a rule makes are shown as a diff, which opens when clicked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import unified_diff

from mdstorm_migrate.rules import Rule, all_rules
from mdstorm_migrate.rules.rule import Example

_HEAD = """\
# The rules of `mdstorm migrate`

[The command](../migrate.md) applies these rules. `mdstorm migrate --explain CODE` shows one.

| rule | class | what it is about |
|---|---|---|
"""


def joined_pages() -> str:
    """Return a table of the rules, with their pages as sections."""
    rules = all_rules()
    rows = [f"| {_link(rule)} | `{rule.cls}` | {rule.title} |\n" for rule in rules]
    return "".join([_HEAD, *rows, *map(_page, rules)])


def _link(rule: Rule) -> str:
    """Return a link to a rule's section, using the anchor of the section's heading."""
    heading = f"{rule.code} {rule.title}".lower()
    return f"[{rule.code}](#{re.sub(r'[^a-z0-9_ -]', '', heading).replace(' ', '-')})"


def _page(rule: Rule) -> str:
    """Return a rule's page as a section, with its examples as collapsible blocks."""
    return "\n#" + "\n\n".join([rule.prose, *_blocks(rule.examples)]) + "\n"


def _blocks(examples: dict[str, Example]) -> Iterator[str]:
    """Yield a diff, or else what the rule reports, and what a person makes of it."""
    if before := examples.get("before"):
        file = f": {before.path}" if before.path else ""
        if after := examples.get("after"):
            yield _block(f"Before and after{file}", "diff", _diff(before.code, after.code))
        else:
            yield _block(f"What it reports{file}", before.language, before.code)
    if by_hand := examples.get("by hand"):
        yield _block("By hand", by_hand.language, by_hand.code)


def _diff(before: str, after: str) -> str:
    """Return all lines, also the equal ones, as a diff."""
    old, new = before.splitlines(), after.splitlines()
    lines = [*unified_diff(old, new, n=len(old), lineterm="")][3:]
    return "".join(f"{line}\n" for line in lines)


def _block(label: str, language: str, code: str) -> str:
    block = f"````{language}\n{code}````"
    return f"<details>\n<summary>{label}</summary>\n\n{block}\n\n</details>"
