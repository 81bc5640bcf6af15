"""Commands that install Petastorm or run its modules, and a test for commented-out text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import chain

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Edit, Finding
from mdstorm_migrate.packaging.requirement import Requirement, find_addresses, find_requirements
from mdstorm_migrate.packaging.rewriting import CONDA, manual, rewrite_requirement
from mdstorm_migrate.petastorm.names import NEW_ROOT, OLD_ROOT, SCRIPTS, missing, renamed

#: Patterns of comment markers: for shells, YAML and Dockerfiles; for these and C-like languages;
#: for INI files; and for SQL. In C-like languages and SQL, lines that Databricks writes for magics
#: are not comments.
SHELL = re.compile(r"(?:^|\s)#")
ANY = re.compile(r"(?:^|\s)(?:#|//|/\*)(?![ ]MAGIC\b)|^[ \t]*\*[ \t]+(?![*\d/,-])")
INI = re.compile(r"(?:^|\s)[#;]")
SQL = re.compile(r"(?:^|\s)--(?![ ]MAGIC\b)|/\*")
_LINE = re.compile(r"[^\r\n]*")


def is_commented_out(text: str, position: int, marks: re.Pattern[str] = SHELL) -> bool:
    """Whether the character at `position` is in a comment that begins on the same line."""
    start = text.rfind("\n", 0, position) + 1
    start = text.rfind("\r", start, position) + 1 or start
    return _first_mark(text, start, marks) <= position


@lru_cache(maxsize=2)
def _first_mark(text: str, start: int, marks: re.Pattern[str]) -> float:
    """Return the end of the first comment marker on a line; cached because lines may be long."""
    found = marks.search(_LINE.match(text, start)[0])  # type: ignore[index]  # it always matches
    return math.inf if found is None else start + found.end()


#: A command up to its end: a line break that is not continued, or a shell operator.
#: Comments between the lines of a command, which Dockerfiles allow, do not end it.
_END = r"(?:[^\n\\;&|#]|\\[ \t]*\r?\n(?:[ \t]*\#[^\n]*\n)*|\\.|&(?!&)|\|(?!\|)|(?<!\s)\#)*"
#: The text between two words of a command, which may be a list of strings, as in Dockerfiles.
_GAP = r"""(?:[ \t]+|["'][ \t]*,[ \t]*["'])"""

#: A module that Python runs, as ``python -m petastorm.etl.x``, or a script that runs one.
_RUN = re.compile(
    rf"""\bpython[\d.]*(?:[ \t]+-\w)*[ \t]+-m[ \t]+(?P<path>{OLD_ROOT}(?:\.\w+)+)
    | (?:^|[;&|(!]|\b(?:RUN|do|then|else|sudo|time|exec)(?=[ \t]))[ \t]*
      (?P<script>{"|".join(map(re.escape, SCRIPTS))})(?![\w.-])""",
    re.MULTILINE | re.VERBOSE,
)


_SCRIPT = re.compile(rf"(?<![\w./-])(?:{'|'.join(map(re.escape, SCRIPTS))})(?![\w.-])")
#: Code passed to Python with ``-c``, the dotted names in the code, and its imports from modules.
_CODE = re.compile(r"""\bpython[\d.]*(?:[ \t]+-\w)*[ \t]+-c[ \t]+(\\?["'])(?P<code>(?s:.)*?)\1""")
_NAME = re.compile(rf"""(?<![\w./"'-])(?P<path>{OLD_ROOT}(?:\.\w+)*)(?![\w/-])""")
_FROM = re.compile(rf"\bfrom\s+({OLD_ROOT}(?:\.\w+)*)\s+import\s*(\([\w,\s]+|[\w, \t]+)")


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return each tool's command pattern, compiled on first use because compiling takes a while."""
    pip = (
        rf"(?:\b(?:pip[\d.]*|pipenv|poetry|uv|pdm|pipx)|\$[({{]?PIP\d?[)}}]?)\"?{_GAP}"
        rf"(?:(?:pip|tool){_GAP})?(?:-[\w-]+{_GAP})*(?:install|add|download|wheel)\b{_END}"
    )
    conda = rf"\b(?:conda|mamba|micromamba)\b{_GAP}(?:install|create|update)\b{_END}"
    return ("pip", re.compile(pip)), ("conda", re.compile(conda))


#: The text between two commands that are strings in one list: ``script: ["pip install x",
#: "pytest"]``.
_NEXT = re.compile(r"""["'][ \t]*,[ \t]*["']""")
#: Options that are followed by the name or path of something other than a package.
_OPTION = re.compile(
    r"""(?<![\w-])(?:-[cdfinprtwEG]|(?P<editable>-e|--editable)
    |--(?:constraint|dest|extras?|find-links|group|(?:extra-)?index-url|name|no-binary|only
    |only-binary|optional|prefix|python|(?:reinstall|refresh|upgrade)-package|requirement|target
    |with|without))
    [ \t=]+(?:["'](?:[\w-]+[ ,]+)*|(?:[\w-]+,)*)\Z""",
    re.VERBOSE,
)


def install_commands(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield the tool, ``pip`` or ``conda``, and the span of each install command in a string."""
    for tool, pattern in _patterns():
        at = 0
        while match := pattern.search(text, at):
            start, at = match.span()
            following = _NEXT.search(text, start, at)
            if following is not None and re.search(r"\s", text[start : following.start()]):
                at = following.start()  # each string is a separate command, not a word
            if not is_commented_out(text, start):
                yield tool, start, at


def installed(text: str, name: str = OLD_ROOT) -> Iterator[tuple[str, Requirement]]:
    """Yield the requirements for a distribution in install commands, each with its tool."""
    for tool, start, stop in install_commands(text):
        found_in = (find(text, start, stop, name) for find in (find_requirements, find_addresses))
        for found in chain.from_iterable(found_in):
            option = _OPTION.search(text, max(found.start - 60, start), found.start)
            is_named = option is not None and not (found.is_copy and option["editable"])
            if not (is_named or is_commented_out(text, found.start)):
                yield tool, found


def rewrite_commands(document: Document, rule: str) -> Iterator[Edit | Finding]:
    """Yield edits and findings for commands that install Petastorm or run its modules.

    Options, quotes and other packages are kept. An unquoted version, which a shell would read as a
    redirection (``petastorm>=0.12``), is also removed.
    """
    for tool, found in installed(document.text):
        if tool == "pip" or found.is_copy:
            yield from rewrite_requirement(document, found, rule, "word")
        else:
            remedy = "remove petastorm from this command and add `pip install mdstorm`"
            yield manual(found, rule, CONDA, remedy)
    yield from rewrite_runs(document, rule, 0, len(document.text))


def rewrite_runs(document: Document, rule: str, start: int, stop: int) -> Iterator[Edit | Finding]:
    """Yield edits, between `start` and `stop`, to commands that run Petastorm's modules.

    A script that cannot be edited, such as an argument of ``spark-submit``, needs manual review.
    """
    if document.needs.importers or document.needs.is_unused:
        return
    edited: set[int] = set()
    for ran in _RUN.finditer(document.text, start, stop):
        span = ran.span("path" if ran["path"] else "script")
        path = ran["path"] or SCRIPTS[ran["script"]]
        if not (is_commented_out(document.text, span[0]) or missing(path)):
            new = renamed(path) if ran["path"] else f"python3 -m {renamed(path)}"
            edited.add(span[0])
            yield Edit(rule, "exact", *span, new, "run mdstorm's module", topic="run")
    for script in _SCRIPT.finditer(document.text, start, stop):
        at, path = script.start(), SCRIPTS[script[0]]
        if at not in edited and not is_commented_out(document.text, at):
            what = f"`{script[0]}` is a script of Petastorm"
            advice = f"run `python3 -m {renamed(path)}` instead"
            if absent := missing(path):
                advice = f"`{absent}` is not in mdstorm, so it needs Petastorm until you replace it"
            yield Finding(rule, "manual", *script.span(), what, f"{what}: {advice}", topic="run")
    for code in _CODE.finditer(document.text, start, stop):
        yield from _renamed(document, rule, *code.span("code"))


def _renamed(document: Document, rule: str, start: int, stop: int) -> Iterator[Edit]:
    """Yield edits to code in a command if mdstorm has every name that the code uses."""
    text = document.text[start:stop]
    paths = [one["path"] for one in _NAME.finditer(text)]
    for module, names in _FROM.findall(text):
        paths += [f"{module}.{name}" for name in re.findall(r"(?<!\bas )\b(?!as\b)\w+", names)]
    is_compared = "__version__" in text and re.search(r"[=!<>]=|<|>|assert", text)
    if not (is_compared or is_commented_out(document.text, start) or any(map(missing, paths))):
        for one in _NAME.finditer(document.text, start, stop):
            at, end = one.start(), one.start() + len(OLD_ROOT)
            yield Edit(rule, "exact", at, end, NEW_ROOT, "import mdstorm", topic="run")


#: Keys of the objects that Hydra and Lightning create.
TARGETS = frozenset({"_target_", "class_path"})
#: A key, up to its value, and the text after a whole value.
_KEY = re.compile(r"""(?<![\w-])(?P<key>\w[\w.-]*)["']?[ \t]*[:=][ \t]*["']?\Z""")
_AFTER = re.compile(r"""["']?[ \t]*(?:[,}\]\#;\r\n]|\Z)""")


def dotted_values(text: str, root: str) -> Iterator[tuple[str, str, int, int]]:
    """Yield the values in configuration that are dotted names in a package.

    Each comes with its key and its span. The format may be YAML, JSON, TOML or INI.
    """
    for found in re.finditer(rf"(?<![\w.-]){root}(?:\.\w+)*(?![\w.-])", text):
        start, stop = found.span()
        key = _KEY.search(text, max(start - 80, 0), start)
        if key and _AFTER.match(text, stop) and not is_commented_out(text, start):
            yield key["key"], found[0], start, stop
