"""Commands that need Petastorm's files where they are installed: mdstorm has none of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Finding
from mdstorm_migrate.packaging.comments import is_commented_out
from mdstorm_migrate.packaging.one_line import line_around
from mdstorm_migrate.packaging.prose import is_prose
from mdstorm_migrate.packaging.running_text import is_page

_LINE = r"(?:[^\n\\]|\\\r?\n|\\.)*?"
_FILES = re.compile(
    rf"""(?:site|dist)-packages/petastorm(?![\w-]) (?:/[\w./*-]*)?
    | (?:site|dist)-packages\b {_LINE} \bpatch\b {_LINE}
      [\w./-]*petastorm[\w.-]*\.(?:patch|diff)\b
    | \bpatch\b {_LINE} [\w./-]*petastorm[\w.-]*\.(?:patch|diff)\b {_LINE}
      (?:site|dist)-packages
    | \bcd[ \t] [^\n;&|]* (?:site|dist)-packages/?["']?[ \t]*&& {_LINE}
      (?<![\w./-])(?:\./)?petastorm/[\w./*-]+""",
    re.VERBOSE,
)
#: Commands that fail without the files that they are given, or change nothing of use.
_NEEDS = re.compile(
    rf"""(?<![\w.$-])
    (?: (?:g?sed|patch|perl|[gm]?awk|cp|mv|rm|ln|rsync|scp|tar|zip|unzip|chmod|chown|cd|pushd|touch
        |tee|2to3|strip)(?=[ \t"'])
      | (?:test|\[{{1,2}})[ \t]+(?:![ \t]+)?-\w(?=[ \t])
      | (?:COPY|ADD|WORKDIR)(?=[ \t]) | install[ \t]+-\w | git\b{_LINE}[ \t"'](?:apply|am)\b
      | cat\b{_LINE}> | (?:compileall|py_compile|cythonize?)(?=[ \t"']) )""",
    re.VERBOSE,
)
_CHANGES = re.compile(rf"(?<![\w.$-])find[ \t]{_LINE}(?:-delete|-exec|xargs)\b")
#: What is written to, mounted over, or changed by a module of Ansible: right before the files.
_GIVEN = re.compile(
    r"""(?: >[ \t]*["']?[^\s"'>]* | [\w.})]:/[\w./-]*
    | \b(?:mountPath|dest|destination|target|path)["']?[ \t]*[:=][ \t]*["']?[^\s"']* )\Z""",
    re.VERBOSE,
)
#: A command that only says something.
_SAYS = re.compile(r"(?:^|[;&|!:]|\bRUN\b|-)[ \t]*@?(?:echo|printf|logger?)\b[^;&|>]*\Z")
#: A variable that holds the folder of what is installed, or that of Petastorm.
_FOLDER = re.compile(
    r"""(?:^|[;&]|\b(?:export|ENV|ARG)[ \t])[ \t]*(?:-[ \t]+)?(?P<name>[A-Za-z_]\w*)
    (?:[ \t]*[:?]?=[ \t]*|:[ \t]+|[ \t]+(?=["']?/))
    (?P<value>[^\n]*?(?:(?:site|dist)-packages|getsitepackages|purelib)[^\n]*)""",
    re.MULTILINE | re.VERBOSE,
)


def needs_files(command: str) -> bool:
    """Whether a text is a command that needs Petastorm's installed files."""
    return any(_is_needed(command, *span) for span in _named(command))


def is_file(path: str) -> bool:
    """Whether a text is a path of Petastorm's installed files, and nothing else."""
    return re.fullmatch(r"[^\s*]*(?:site|dist)-packages/petastorm(?:/[^\s*]*)?", path) is not None


def report_installed_files(document: Document, rule: str) -> Iterator[Finding]:
    """Report the commands that need Petastorm's installed files.

    Settings that name the files get a note. What a command says or lists is left alone, as are
    pages that people read.
    """
    if is_page(document):
        return
    text = document.text
    for start, stop in _named(text):
        if is_prose(text, start):
            continue
        if _is_needed(text, start, stop):
            what = "this command uses Petastorm's installed files, which mdstorm has not"
            remedy = f"{what}: take it out, or see whether mdstorm needs the change"
            yield Finding(rule, "manual", start, stop, what, remedy)
        elif _is_setting(document, start):
            what = "this setting is for Petastorm's installed files, which mdstorm has not"
            yield Finding(rule, "note", start, stop, what)


def _named(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the files are named, also by a variable that holds their folder."""
    spans = [found.span() for found in _FILES.finditer(text)]
    for folder in _FOLDER.finditer(text):
        if "packages/petastorm" in folder["value"]:
            continue  # which is named itself
        used = re.compile(rf"\$[({{]?{folder['name']}\b[)}}]?[\"']?/petastorm(?![\w-])[\w./*-]*")
        spans += [found.span() for found in used.finditer(text)]
    yield from sorted(span for span in set(spans) if not is_commented_out(text, span[0]))


def _is_needed(text: str, start: int, stop: int) -> bool:
    """Whether the command at a place needs the files that are named there."""
    first, last = line_around(text, start)
    before = text[first:start]
    if _SAYS.search(before):
        return False
    if _NEEDS.search(text, first, stop) or _GIVEN.search(before):
        return True
    if _CHANGES.search(text, first, last):
        return True
    held = _FOLDER.match(text, first)
    if held is None:
        return False
    used = re.compile(rf"\$[({{]?{held['name']}\b")
    lines = (line_around(text, one.start()) for one in used.finditer(text))
    return any(line != (first, last) and _NEEDS.search(text, *line) for line in lines)


def _is_setting(document: Document, start: int) -> bool:
    path = document.path
    if path is not None and path.name.endswith("ignore"):
        return True
    line = document.text[document.text.rfind("\n", 0, start) + 1 : start]
    is_value = re.fullmatch(r"""[ \t]*(?:-[ \t]+|["']?[\w-]+["']?:[ \t]+)["']?\S*""", line)
    return document.kind == "cluster" and is_value is not None
