"""Metadata of scripts, by PEP 723."""

import pytest
from tests.migrate.checks import check_finding, check_noop, check_rewrite

from mdstorm_migrate.api import migrate

CODE = "from petastorm import make_reader\n"
SCRIPT = """\
#!/usr/bin/env -S uv run --script
# /// script
# requires-python = ">={}"
#
# dependencies = [
#   "petastorm[torch]==0.12.1",
#   "{}",  # as petastorm has it
# ]
# ///
"""


def test_dependencies_move_with_the_code() -> None:
    before = SCRIPT.format("3.10", "six") + CODE
    moved = before.replace("petastorm[torch]==0.12.1", "mdstorm[torch]")
    moved = moved.replace("from petastorm", "from mdstorm")
    check_rewrite(before, moved, "a.py")
    check_rewrite(before.replace("\n", "\r\n"), moved.replace("\n", "\r\n"), "a.py")


def test_petastorm_stays_beside_mdstorm_where_code_needs_both() -> None:
    head = '# /// script\n# dependencies = ["petastorm"]\n# ///\n'
    text = f"{head}{CODE}from petastorm.reader import Ventilator\n"
    output = migrate(text, path="a.py", todo=False, unsafe=True).output
    assert '["mdstorm", "petastorm"]' in output
    check_noop(f"{head}from petastorm.reader import Ventilator\n", "a.py")


def test_a_comment_in_them_counts_once() -> None:
    text = f'# /// script\n# dependencies = [\n#   "petastorm @ https://x/y",\n# ]\n# ///\n{CODE}'
    check_finding(text, "PM402", "petastorm @ https://x/y", "a.py")
    output = migrate(text, path="a.py").output
    assert "\n#   # TODO(mdstorm): PM402" in output
    again = migrate(output, path="a.py")
    assert again.output == output
    assert [one.rule for one in again.findings] == ["PM402"]


@pytest.mark.parametrize(("head", "end"), [("other", "# ///\n"), ("script", "")])
def test_other_comments_are_none(head: str, end: str) -> None:
    check_noop(f'# /// {head}\n# dependencies = ["petastorm"]\n{end}', "a.py")
