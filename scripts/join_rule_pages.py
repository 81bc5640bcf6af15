"""Make the site's page of rules: an index, with the rules' pages as sections.

The changes that a rule makes are shown as a diff, which opens when clicked.
"""

from __future__ import annotations

import re
from difflib import unified_diff

from mdstorm_migrate.rules import Rule, all_rules

_HEAD = """\
# The rules of `mdstorm migrate`

[The command](../migrate.md) applies these rules. `mdstorm migrate --explain CODE` shows one.

| rule | class | what it is about |
|---|---|---|
"""

#: A fenced example labelled "before", with an optional file name, and the "after" block that
#: follows it, if any.
_EXAMPLE = re.compile(
    r"^(?P<fence>`{3,})(?P<language>\w+) before(?P<file>.*)\n(?P<before>[\s\S]*?)^(?P=fence)$"
    r"(\n\n(?P=fence)\w+ after.*\n(?P<after>[\s\S]*?)^(?P=fence)$)?",
    re.M,
)

_BY_HAND = re.compile(
    r"^(?P<fence>`{3,})(?P<language>\w+) by hand\n(?P<code>[\s\S]*?)^(?P=fence)$", re.M
)


def joined_pages() -> str:
    """Return a table of the rules, with their pages as sections."""
    rules = all_rules()
    rows = [f"| {_link(rule)} | `{rule.cls}` | {rule.title} |\n" for rule in rules]
    return "".join([_HEAD, *rows, *map(_page, rules)])


def _page(rule: Rule) -> str:
    """Return a rule's page as a section, with its examples as collapsible blocks."""
    page = _EXAMPLE.sub(_folded, rule.explain()).rstrip()
    return f"\n#{_BY_HAND.sub(lambda one: _block('By hand', *one.groups()), page)}\n"


def _link(rule: Rule) -> str:
    """Return a link to a rule's section, using the anchor of the section's heading."""
    heading = f"{rule.code} {rule.title}".lower()
    return f"[{rule.code}](#{re.sub(r'[^a-z0-9_ -]', '', heading).replace(' ', '-')})"


def _folded(example: re.Match[str]) -> str:
    """Return an example as a collapsible block: a diff, or the rule's report."""
    fence, language, code = example["fence"], example["language"], example["before"]
    what = "What it reports"
    if example["after"] is not None:
        before, after = code.splitlines(), example["after"].splitlines()
        difference = unified_diff(before, after, n=len(before), lineterm="")
        what, language = "Before and after", "diff"
        code = "".join(f"{line}\n" for line in list(difference)[3:])
    file = example["file"].strip()
    return _block(f"{what}: {file}" if file else what, fence, language, code)


def _block(label: str, fence: str, language: str, code: str) -> str:
    block = f"{fence}{language}\n{code}{fence}"
    return f"<details>\n<summary>{label}</summary>\n\n{block}\n\n</details>"
