"""Compare the tool's result for each file with the expected one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.unit.migrate.wild2.expected import EXPECTED as EXPECTED_OF_WILD2

from mdstorm_migrate.run.outcome import Outcome, Settings
from mdstorm_migrate.run.together import migrate_alone
from mdstorm_migrate.sources import find_source

from .expected import EXPECTED, Expected

WILD = Path(__file__).parent
#: The directory of each set of programs, by the prefix of its file names.
ROOTS = {"": WILD, "wild2/": WILD.parent / "wild2"}
FOLDERS = ("programs", "projects", "unrunnable")
FILES = sorted(
    prefix + str(path.relative_to(root))
    for prefix, root in ROOTS.items()
    for folder in FOLDERS
    for path in (root / folder).rglob("*")
    if path.is_file() and "__pycache__" not in path.parts
)
_EXPECTED = EXPECTED | {f"wild2/{name}": one for name, one in EXPECTED_OF_WILD2.items()}
_MARK = "TODO(mdstorm)"


def expected_of(name: str) -> Expected:
    """Return the expected result for a file; by default, the file needs no work."""
    return _EXPECTED.get(name, Expected())


def path_of(name: str) -> Path:
    """Return the path of the file with this name in `FILES`."""
    return ROOTS["wild2/"] / name[6:] if name.startswith("wild2/") else WILD / name


def migrated(name: str, data: bytes | None = None) -> Outcome:
    """Migrate a file, or `data` instead of the file's content."""
    path = path_of(name)
    data = path.read_bytes() if data is None else data
    source = find_source(path, data)
    if source is None:  # the tool does not scan such files
        return Outcome(data, data)
    return migrate_alone(data, path, source, Settings(unsafe=expected_of(name).unsafe))


def faults(name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the wrong edits of a file, and the lines that are missed or reported wrongly."""
    expected, outcome = expected_of(name), migrated(name)
    reasons = "; ".join(map(str, outcome.problems))
    if expected.error or reasons:
        if not expected.error or expected.error not in reasons:
            return (), (f"error: {reasons or 'none'}",)
        if not expected.becomes and outcome.after != outcome.before:
            return ("changed in spite of an error",), ()
    return tuple(_wrong(name, expected, outcome)), tuple(_missed(name, expected, outcome))


def _wrong(name: str, expected: Expected, outcome: Outcome) -> Iterator[str]:
    before, after = outcome.texts()
    if expected.untouched and before != after:
        yield "changed, and should stay"
    for text in expected.stays:
        assert text in before, f"{name}: {text}"
        if before.count(text) != after.count(text):
            yield f"`{text}` should stay"
    if migrated(name, outcome.after).after != outcome.after:
        yield "changed again when it is migrated again"
    if name.endswith(".py") and "unrunnable" not in name:
        ast.parse(outcome.after)


def _missed(name: str, expected: Expected, outcome: Outcome) -> Iterator[str]:
    """Yield expected edits and reports that are missing, and unexpected comments.

    A line is reported by a comment above it, or by a line of the report.
    """
    _, after = outcome.texts()
    for text in expected.becomes:
        if text not in after:
            yield f"`{text}` should be there"
    comments = dict(_todos(after))
    messages = [*comments.items(), *_reported(outcome)]
    for line, words in expected.todo.items():
        texts = [text for about, text in messages if line in about]
        if not texts:
            yield f"`{line}` is not reported"
        elif not any(words in text for text in texts):
            yield f"the report on `{line}` does not name `{words}`: {texts[0]}"
    for text in expected.listed:
        if not any(text in line for line, _ in messages):
            yield f"the report does not name `{text}`"
    for about, todo in comments.items():
        if not any(line in about for line in expected.todo):
            yield f"needless: {todo}"
    if name.endswith(".py") and not comments and not expected.untouched:
        for number, line in _left(after):
            if not any(line in about for about, _ in messages):
                yield f"line {number} imports Petastorm, and is not reported"


def _reported(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """Yield the lines with a finding, and the text of the finding."""
    before, _ = outcome.texts()
    for found in outcome.findings:
        start = before.rfind("\n", 0, found.start) + 1
        yield before[start : before.find("\n", found.stop)], found.text


def _left(text: str) -> Iterator[tuple[int, str]]:
    """Yield the number and text of each line of Python code that imports Petastorm."""
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except SyntaxError:
        return
    for node in nodes:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        if any(name.partition(".")[0] == "petastorm" for name in names):
            yield node.lineno, text.splitlines()[node.lineno - 1]  # type: ignore[attr-defined]


def _todos(text: str) -> Iterator[tuple[str, str]]:
    """Yield each line that follows TODO comments, and the text of these comments."""
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        start = number
        while number < len(lines) and _MARK in lines[number]:
            number += 1
        if number > start:
            yield lines[number], " ".join(lines[start:number])
        number += 1
