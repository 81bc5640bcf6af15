"""Commands are split into words as what runs them splits them."""

from tests.kit.migrating import each

from mdstorm_migrate.base.document import DocumentKind
from mdstorm_migrate.packaging.values import folded
from mdstorm_migrate.packaging.words import commands_of


def words_of(text: str, kind: DocumentKind) -> list[list[str]]:
    """Return the words of each command, after checking that each is where it says."""
    commands = commands_of(folded(text) if kind == "cluster" else text, kind)
    words = [one for command in commands for one in command.words if one.text != "cd"]
    assert [text[one.start : one.stop] for one in words] == [one.text for one in words]
    return [[one.text for one in command.words] for command in commands]


@each(
    ("pip install a 'b c' \"d\" # e\n", [["pip", "install", "a", "b c", "d"], ["b", "c"]]),
    (
        "pip add a; cd b && make || c | d\n",
        [["pip", "add", "a"], ["cd", "b"], ["make"], ["c"], ["d"]],
    ),
    ("pip \\\n  # e\n  a>=1 >b 2>&1 <c\n", [["pip", "a>=1"]]),
    ("pip a==${{ v }} $(b) ${C:-d} it's\n", [["pip", "a==${{ v }}", "$(b)", "${C:-d}", "it's"]]),
    ("sh -c 'pip a'\n", [["sh", "-c", "pip a"], ["pip", "a"]]),
    (r'sh -c "pip \"a b\""', [["sh", "-c", r"pip \"a b\""], ["pip", "a b"], ["a", "b"]]),
    ("x=$(pip a)\n", [["x=$(pip a)"], ["pip", "a"]]),
    ("if pip a; then\n{ b; }\nfi\n", [["if", "pip", "a"], ["then"], ["b"], ["fi"]]),
    ("cat <<'EOF' > f\npip a\nEOF\n", [["cat"], ["pip", "a"], ["EOF"]]),
)
def test_shell_has_words_of_each_command(text: str, expected: list[list[str]]) -> None:
    assert words_of(text, "shell") == expected


@each(
    ("FROM x\nRUN pip \\\n # c\n  a && b\n", [["x"], ["pip", "a"], ["b"]]),
    ('CMD ["pip", "a b"]\nCOPY c d\n', [["pip", "a b"], ["a", "b"], ["c", "d"]]),
    ("RUN --mount=type=x,y pip a\n", [["pip", "a"]]),
    ("RUN <<EOF\npip a\nEOF\nCMD b\n", [["pip", "a"], ["EOF"], ["b"]]),
)
def test_image_has_words_of_each_instruction(text: str, expected: list[list[str]]) -> None:
    assert words_of(text, "docker") == expected


@each(
    ("run: |\n  pip a\n  b\nc: d\n", [["pip", "a"], ["b"], ["d"]]),
    ("a:\n- run: pip 'b'\n- [pip, c]\n", [["pip", "b"], ["pip", "c"]]),
    # texts without quotes over several lines
    ("run: pip\n  a b\nc: d\n", [["pip", "a", "b"], ["d"]]),
    ("a:\n- pip b\n  c\n\n  d e\n- f g\n", [["pip", "b", "c"], ["d", "e"], ["f", "g"]]),
    ("run: pip a\n  # b\n  c: d\n", [["pip", "a"], ["d"]]),
    ("run: 'pip\n  a\n\n  b'\n", [["pip", "a"], ["b"]]),
    # blocks
    ("run: >\n  pip\n  a\n\n  b\n  c\n", [["pip", "a"], ["b", "c"]]),
    ("- >-\n  pip\n  a\n    b\n    c\n  d\n", [["pip", "a"], ["b"], ["c"], ["d"]]),
    ("run: |\n  pip >\n  a\n", [["pip"], ["a"]]),
    ("script: ['pip a', \"b\"]\n", [["pip", "a"], ["b"]]),
    ("a:\n  command: [pip]\n  args:\n  - x y\n", [["x", "y"], ["pip", "x y"]]),
    ("a:\n- args: [b]\n  command:\n  - pip\n- command: c\n", [["pip", "b"], ["c"]]),
    ("working-directory: a\nrun: pip b\n", [["cd", "a"], ["pip", "b"]]),
    ("working_dir: /a\ncommand: pip b\n", [["pip", "b"]]),
    ('{"command": "pip", "args": ["a"], "b": {"c": "d"}}', [["d"], ["pip", "a"]]),
)
def test_values_have_words_of_each_command(text: str, expected: list[list[str]]) -> None:
    assert words_of(text, "cluster") == expected
