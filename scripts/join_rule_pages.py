"""Write ``docs/migrate/rules.md``: the pages of all rules, which the package holds, in one."""

from __future__ import annotations

from pathlib import Path

from mdstorm_migrate.rules import all_rules

TARGET = Path(__file__).parents[1] / "docs" / "migrate" / "rules.md"

_HEAD = """\
# The rules of `mdstorm migrate`

Written by `scripts/join_rule_pages.py` from the pages that `mdstorm migrate --explain CODE` shows.
[migrate.md](../migrate.md) describes the command.

| rule | class | what it is about |
|---|---|---|
"""


def joined_pages() -> str:
    """Return a table of the rules, and their pages as its sections."""
    rules = all_rules()
    rows = [f"| {rule.code} | `{rule.cls}` | {rule.title} |\n" for rule in rules]
    pages = [f"\n#{rule.explain().rstrip()}\n" for rule in rules]
    return "".join([_HEAD, *rows, *pages])


if __name__ == "__main__":
    TARGET.write_text(joined_pages(), "utf-8", newline="\n")
