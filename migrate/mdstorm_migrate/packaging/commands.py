"""Commands that install Petastorm or run its modules, and a test for commented-out text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import chain

from mdstorm_migrate.base.document import Document, Kind
from mdstorm_migrate.base.edits import Edit, Finding
from mdstorm_migrate.packaging.requirement import Requirement, find_addresses, find_requirements
from mdstorm_migrate.packaging.rewriting import CONDA, Place, manual, rewrite_requirement
from mdstorm_migrate.petastorm.names import (
    NEW_ROOT,
    NEW_SCRIPTS,
    OLD_ROOT,
    SCRIPTS,
    VERSION,
    missing,
    renamed,
)

#: Patterns of comment markers: for shells, YAML and Dockerfiles; for these and C-like languages;
#: for INI files; and for SQL. In C-like languages and SQL, lines that Databricks writes for magics
#: are not comments.
SHELL = re.compile(r"(?:^|\s)#")
ANY = re.compile(r"(?:^|\s)(?:#|//|/\*)(?![ ]MAGIC\b)|^[ \t]*\*[ \t]+(?![*\d/,-])")
INI = re.compile(r"(?:^|\s)[#;]")
SQL = re.compile(r"(?:^|\s)--(?![ ]MAGIC\b)|/\*")
_LINE = re.compile(r"[^\r\n]*")
#: A quoted word, whose marks are characters for what follows it; an apostrophe begins none.
_QUOTED = re.compile(r"""(?<![\w\\])(?:"(?:[^"\\]|\\.)*"|'[^']*')(?!\w)""")


def is_commented_out(text: str, position: int, marks: re.Pattern[str] = SHELL) -> bool:
    """Whether the character at `position` is in a comment that begins on the same line."""
    start = text.rfind("\n", 0, position) + 1
    start = text.rfind("\r", start, position) + 1 or start
    return any(mark <= position < stop for mark, stop in _marks(text, start, marks))


@lru_cache(maxsize=2)
def _marks(text: str, start: int, marks: re.Pattern[str]) -> Sequence[tuple[int, float]]:
    """Return the ends of the comment markers on a line, each with the end of the comment.

    The first one outside of quotes is the last. This is cached because lines may be long.
    """
    line = _LINE.match(text, start)[0]  # type: ignore[index]  # it always matches
    if marks.search(line) is None:
        return ()
    found: list[tuple[int, float]] = []
    at = 0
    for quoted in _QUOTED.finditer(line):
        if marks.search(line, at, quoted.start()) is not None:
            break
        if (mark := marks.search(line, *quoted.span())) is not None:
            found.append((start + mark.end(), start + quoted.end()))
        at = quoted.end()
    if (mark := marks.search(line, at)) is not None:
        found.append((start + mark.end(), math.inf))
    return found


#: A quoted requirement with a marker, whose semicolon does not end the command.
_MARKED = r"""'[A-Za-z][^'";&|\n]*;[^'\n]*'|"[A-Za-z][^'";&|\n]*;[^"\n]*\""""
#: A command up to its end: a line break that is not continued, or a shell operator.
#: Comments between the lines of a command, which Dockerfiles allow, do not end it.
_END = (
    rf"(?:{_MARKED}|[^\n\\;&|#]|\\[ \t]*\r?\n(?:[ \t]*\#[^\n]*\n)*|\\.|&(?!&)|\|(?!\|)|(?<!\s)\#)*"
)
#: The text between two words of a command, which may be a list of strings, as in Dockerfiles.
_GAP = r"""(?:[ \t]+|["'][ \t]*,[ \t]*["'])"""
#: The text between the command of a container and its arguments, which are one command.
_ARGUMENTS = r"""["']?[ \t]*\]?,?\s*["']?\bargs["']?[ \t]*:\s*(?:\[\s*|-[ ]+)?["']?"""
#: The same, also for the items of a list on lines of their own.
_NEXT_WORD = rf"""(?:{_GAP}|["']?[ \t]*\r?\n[ \t]*-[ ]+["']?|{_ARGUMENTS})"""

#: A module that is run, as ``python -m petastorm.etl.x``.
_RUN = re.compile(rf"""(?<![\w-])-m{_NEXT_WORD}(?P<path>{OLD_ROOT}(?:\.\w+)+)""")


#: Programs that run the module after ``-m``: interpreters, also in variables, and launchers.
_RUNS_MODULES = re.compile(
    r"(?<![\w-])(?:python[\d.]*|pypy3?|py|executable|accelerate|coverage|kernprof|torchrun)\b", re.I
)
_WORD = re.compile(r"[A-Za-z]")
#: What precedes a command on its line: another one, the bracket of a list, or a key.
_COMMAND_BEGIN = re.compile(r"[;&|\[]|^[ \t-]*[\w.-]+[ \t]*[:=](?=[ \t])")


def runs_modules(before: str) -> bool:
    """Whether ``-m`` after the given words of a command names a module; without words, it may.

    Other programs, such as git and pytest, have an option with that name.
    """
    if re.search(r"(?:^|[\s\"'])-m(?![\w-])", before):  # the program that it names has options
        return False
    return not _WORD.search(before) or _RUNS_MODULES.search(before) is not None


#: A script, also with the path of its environment; one in the current directory is the project's.
_SCRIPT = re.compile(rf"(?<![\w.-])(?<!\./)(?:{'|'.join(map(re.escape, SCRIPTS))})(?![\w.-])")
#: What runs a script in an environment of its own, with the package after the option.
_ALONE = re.compile(r"--(?:from|spec)\b[^\n;&|]*\Z")
#: The rest of a command, also on several lines, up to one of its options.
_REST = r"""(?:[^\n;&|]|\\\r?\n|["'],[ \t]*\r?\n|\r?\n[ \t]*(?:-[ ]|(?:args|command):)){0,400}?"""
#: The option that each call of a script has.
_CALLED = f"{_REST}--dataset_url"
_IS_CALLED = re.compile(_CALLED)
#: What precedes a script: Python, which runs a file by its path, and the script's directory.
_PROGRAM = re.compile(
    r"""(?P<python>(?:\bpython[\d.]*|\$[({]?PY\w*[)}]?|\bspark-submit\b[^\n;&|$]*)
    ["']?,?[ \t]+["']?)?
    (?P<folder>[^\s"',;=(]*[/\\])?\Z""",
    re.VERBOSE,
)
#: The directory with the programs of an environment; a relative `bin` is the project's.
_PROGRAMS = re.compile(r"(?!(?:\./)?bin/\Z)(?!.*://).*\b(?:bin|Scripts)[/\\]")
#: Code passed to Python with ``-c``, also in a list of words; the dotted names in the code, and its
#: imports from modules.
_CODE = re.compile(
    r"""(?:\bpython[\d.]*|\$[({]?PY[^\s"']*)["']?(?:,?[ \t]+["']?-\w["']?)*?
    ,?[ \t]+["']?-c(?:["']?,?[ \t]+|["']?[ \t]*\]?,?\s*["']?\bargs["']?[ \t]*:\s*(?:\[\s*|-[ ]+))
    (\\?["'])(?P<code>(?s:.)*?)\1""",
    re.VERBOSE,
)
_NAME = re.compile(rf"""(?<![\w./"'-])(?P<path>{OLD_ROOT}(?:\.\w+)*)(?![\w/-])""")
#: An import on a line of its own, as in a here-document, or the item after ``-c`` in a YAML list.
_IMPORT = re.compile(
    rf"""^(?:[ \t]*-[ ]+["']?-c["']?[ \t]*\r?\n[ \t]*-[ ]+["']?)?[ \t]*
    (?:from|import)[ \t]+(?P<path>{OLD_ROOT}\b)""",
    re.MULTILINE | re.VERBOSE,
)
_FROM = re.compile(rf"\bfrom\s+({OLD_ROOT}(?:\.\w+)*)\s+import\s*(\([\w,\s]+|[\w, \t]+)")


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return each tool's command pattern, compiled on first use because compiling takes a while."""
    pip = (
        rf"(?:\b(?:pip[\d.]*|pipenv|poetry|uv|pdm)|\$[({{]?PIP\d?[)}}]?)\"?{_GAP}"
        rf"(?:pip{_GAP})?(?:-[\w-]+{_GAP})*(?:install|add|download|wheel)\b{_END}"
    )
    uv = rf"\b(?:uvx|uv{_GAP}(?:tool{_GAP})?run)\b{_END}--with(?:=|{_GAP})[\"']?[^\s\"';&|]+"
    pipx = rf"\b(?:pipx|uv{_GAP}tool){_GAP}(?:-[\w-]+{_GAP})*install\b{_END}"
    conda = rf"\b(?:conda|mamba|micromamba)\b{_GAP}(?:install|create|update)\b{_END}"
    patterns = {"pip": pip, "uv": uv, "pipx": pipx, "conda": conda}
    return tuple((tool, re.compile(pattern)) for tool, pattern in patterns.items())


#: The text between two commands that are strings in one list: ``script: ["pip install x",
#: "pytest"]``.
_NEXT = re.compile(r"""["'][ \t]*,[ \t]*["']""")
#: Options that are followed by the name or path of something other than a package.
_OPTION = re.compile(
    r"""(?<![\w-])(?:-[cdfinprtwEG]|(?P<editable>-e|--editable)
    |--(?:constraint|dest|extras?|find-links|group|(?:extra-)?index-url|name|no-binary|only
    |only-binary|optional|prefix|python|(?:reinstall|refresh|upgrade)-package|requirement|target
    |with|without))
    (?:[ \t=]+|["'][ \t]*,[ \t]*)(?:["'](?:[\w-]+[ ,]+)*|(?:[\w-]+,)*)\Z""",
    re.VERBOSE,
)


#: The lines of a folded scalar in YAML, which are one line for what reads it.
_FOLDED = re.compile(
    r"(?P<header>(?<=[\s:])>[-+\d]*[ ]*\n)"
    r"(?P<lines>(?P<indent>[ ]+)\S[^\n]*(?:\n(?P=indent)\S[^\n]*)+)"
)


#: A comment in JSON, or a string, in which none begins.
_IN_JSON = re.compile(r""""(?:[^"\\\n]|\\.)*"|(?P<text>//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)""")
#: The title of a step or a task; without a dash before it, a list of packages has commas.
_TITLE = re.compile(
    r"^[ \t]*(?:-[ ]+(?:name|displayName)[ ]*:[ ]+(?P<text>\S+[ ][^\n]*)"
    r"|(?:name|displayName|description)[ ]*:[ ]+(?P<plain>[^\s,]+[ ][^\n,]*))$",
    re.MULTILINE,
)
#: The words of a message that a command shows, but does not give to a file or to another command.
_MESSAGE = re.compile(
    r"""(?<![\w./$-])(?:echo|printf)
    (?P<text>(?:[ \t]+(?:"(?:[^"\\\n`$]|\\.|\$(?!\())*"|'[^'\n]*'|(?!\\\r?\n)[^\s"'`;&|<>()]+))+)
    (?=[ \t]*(?:1?>&2[ \t]*)?(?:[;)\r\n"'\]}]|&&|\|\||\Z))""",
    re.VERBOSE,
)


def command_text(document: Document) -> str:
    """Return the text of a document in which commands are looked for, of the same length.

    It has spaces for what is shown to people and not run, and for line breaks that YAML folds.
    """
    return (
        document.text if document.kind == "python" else _command_text(document.kind, document.text)
    )


@lru_cache(maxsize=4)
def _command_text(kind: Kind, text: str) -> str:
    if kind == "cluster":
        text = _blanked(_IN_JSON if text.lstrip().startswith("{") else _TITLE, text)
        text = _FOLDED.sub(lambda one: one["header"] + one["lines"].replace("\n", " "), text)
    return _blanked(_MESSAGE, text) if "echo" in text or "printf" in text else text


def _blanked(pattern: re.Pattern[str], text: str) -> str:
    """Return a text with spaces where a pattern has a group with what is not run."""

    def blank(found: re.Match[str]) -> str:
        start, stop = (one - found.start() for one in found.span(found.lastgroup or 0))
        is_shown = found.lastgroup is not None
        return found[0][:start] + " " * (stop - start) + found[0][stop:] if is_shown else found[0]

    return pattern.sub(blank, text)


def install_commands(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield the tool and the span of each install command in a string.

    The tool is ``pip``; ``uv`` for a command that runs what it names in an environment with other
    packages; ``pipx`` for one that gives the scripts of a package an environment; ``alone`` for pip
    without what a package requires; or ``conda``.
    """
    for tool, pattern in _patterns():
        at = 0
        while match := pattern.search(text, at):
            start, at = match.span()
            following = _NEXT.search(text, start, at)
            if following is not None and re.search(r"\s", text[start : following.start()]):
                at = following.start()  # each string is a separate command, not a word
            if not is_commented_out(text, start):
                option = text.find("--no-deps", start, at)
                is_alone = tool == "pip" and option >= 0 and not is_commented_out(text, option)
                yield "alone" if is_alone else tool, start, at


#: How requirements are listed in the commands of the tools that can install mdstorm.
LISTED: dict[str, Place] = {"pip": "word", "uv": "joined"}
_REFUSED = {
    "alone": (
        "mdstorm requires other packages than Petastorm, which this does not install",
        "remove `--no-deps`, or also install what `pip show mdstorm` lists",
    ),
    "conda": (CONDA, "remove petastorm from this command and add `pip install mdstorm`"),
    "pipx": (
        "this installs the scripts of Petastorm, of which mdstorm has only "
        f"{' and '.join(f'`{one}`' for one in NEW_SCRIPTS)}",
        "if it is the only one that is used, install mdstorm instead",
    ),
}


def installed(text: str, name: str = OLD_ROOT) -> Iterator[tuple[str, Requirement]]:
    """Yield the requirements for a distribution in install commands, each with its tool."""
    for tool, start, stop in install_commands(text):
        found_in = (find(text, start, stop, name) for find in (find_requirements, find_addresses))
        for found in chain.from_iterable(found_in):
            option = _OPTION.search(text, max(found.start - 60, start), found.start)
            is_package = found.is_copy and option is not None and option["editable"]
            is_named = option is not None and not (is_package or tool == "uv")
            if not (is_named or is_commented_out(text, found.start)):
                yield tool, found


#: Commands that install a list, or a project with its requirements.
_BY_LIST = re.compile(
    r"""\binstall\b(?:[^\n\\]|\\\r?\n|\\.)*?[\s"'](?:-[re]\b|--(?:requirement|editable)\b|\.)
    |\benv[ ](?:create|update)\b|^[^#\n]*\b(?:nox|pdm|pipenv|poetry|tox|uv[ ](?:run|sync))\b""",
    re.VERBOSE | re.MULTILINE,
)


def installs_all(text: str) -> bool:
    """Whether commands install packages, and name each of them instead of a list."""
    return any(True for _ in install_commands(text)) and not _BY_LIST.search(text)


def takes_value(option: str) -> bool:
    """Whether an option of an install command is followed by something other than a package."""
    return _OPTION.search(f"{option} ") is not None


def rewrite_commands(document: Document, rule: str) -> Iterator[Edit | Finding]:
    """Yield edits and findings for commands that install Petastorm or run its modules.

    Options, quotes and other packages are kept. An unquoted version, which a shell would read as a
    redirection (``petastorm>=0.12``), is also removed.
    """
    for tool, found in installed(command_text(document)):
        if tool in LISTED or found.is_copy:
            yield from rewrite_requirement(document, found, rule, LISTED.get(tool, "word"))
        else:
            yield manual(found, rule, *_REFUSED[tool])
    yield from rewrite_runs(document, rule, 0, len(document.text))
    yield from looks(document, rule)


#: A command, or the words of one, that looks for Petastorm among the installed packages.
_LOOKS = re.compile(
    rf"""\bpip[\d.]*{_GAP}(?: show{_GAP}(?:-[\w-]+{_GAP})*(?P<shown>{OLD_ROOT})(?![\w-])
    | (?:list|freeze)\b[^\n;&#]*\|[^\n;&|#]*\bgrep\b[^\n;&|#]*?(?P<listed>\b{OLD_ROOT}\b) )""",
    re.VERBOSE,
)


#: What installs a package that was not found.
_IF_MISSING = re.compile(r"(?:[^|\n;]|>&)*\|\|(?:[^\n]|\\\r?\n)*?\bpip[\d.]*[ \t]+install\b")


def looks(document: Document, rule: str) -> Iterator[Edit | Finding]:
    """Yield edits and findings about commands that look for Petastorm where mdstorm is installed.

    A search whose failure installs it has an edit, because mdstorm would not be installed.
    """
    needs = document.needs
    is_moved = needs.moved and not (needs.importers and document.kind == "python")
    text = command_text(document)
    if needs.is_unused or not is_moved or "pip" not in text:
        return
    for found in _LOOKS.finditer(text):
        start, stop = found.span(found.lastgroup or 0)
        if not is_commented_out(text, start):
            what = "this looks for Petastorm among the installed packages"
            if not needs.refuses and _IF_MISSING.match(text, stop):
                yield Edit(rule, "exact", start, stop, NEW_ROOT, "look for mdstorm", topic="run")
                continue
            yield Finding(rule, "manual", start, stop, what, f"{what}: look for mdstorm")


#: The class that a command gets, as the dotted name of an object that it imports.
_CLASS = re.compile(rf"""{_REST}--unischema_class[\s"',=-]+(?P<path>[\w.]+)\.""")


def _unmoved(document: Document, at: int) -> str | None:
    """Return the module that stays on Petastorm and has the class for the command at a position.

    Code that is linked to the class stays with it.
    """
    found = _CLASS.match(document.text, at)
    name = found["path"].replace(".", "/") if found is not None else ""
    importers = document.needs.importers if name else ()
    files = [one.removesuffix(".py").removesuffix("/__init__") for one in importers]
    if document.kind == "python":
        return next(iter(files), None)
    return next((one for one in files if one == name or one.endswith(f"/{name}")), None)


def rewrite_runs(document: Document, rule: str, start: int, stop: int) -> Iterator[Edit | Finding]:
    """Yield edits, between `start` and `stop`, to commands that run Petastorm's modules.

    While Petastorm stays, code that works with either library is left, and what mdstorm also has
    is changed by hand if only Petastorm is installed there.
    """
    needs, text = document.needs, command_text(document)
    for one in runs(text, rule, start, stop):
        if isinstance(one, Finding):
            is_wanted = bool(one.holds) or not needs.is_unused
        else:
            is_code = text[one.start : one.stop] == OLD_ROOT  # not a module or script
            is_wanted = not (needs.is_unused or (needs.importers and is_code))
        if not is_wanted:
            continue
        if isinstance(one, Edit) and (unmoved := _unmoved(document, one.stop)):
            what = f"{unmoved}.py stays on Petastorm"
            remedy = f"{what}: once it has moved, use `{one.replacement}`"
            yield Finding(rule, "manual", one.start, one.stop, what, remedy, topic="run")
        elif (needs.moved and not needs.refuses) or isinstance(one, Finding):
            yield one
        else:
            what = f"`{text[one.start : one.stop]}` is also in mdstorm"
            remedy = f"{what}: once mdstorm is installed here, use `{one.replacement}`"
            yield Finding(rule, "manual", one.start, one.stop, what, remedy, topic="run")


def runs(text: str, rule: str, start: int, stop: int) -> Iterator[Edit | Finding]:
    """Yield edits, between `start` and `stop`, to commands that run what mdstorm also has.

    What needs Petastorm gets a finding that holds its requirement, as does a script that cannot be
    edited, such as an argument of ``spark-submit``.
    """
    for ran in _RUN.finditer(text, start, stop):
        span, path = ran.span("path"), ran["path"]
        line = text[_line(text, start, ran.start()) : ran.start()]
        if is_commented_out(text, span[0]) or not runs_modules(_COMMAND_BEGIN.split(line)[-1]):
            continue
        if absent := missing(path):
            yield _absent(rule, span, f"`{path}` is run here", absent)
        else:
            yield Edit(rule, "exact", *span, renamed(path), "run mdstorm's module", topic="run")
    for script in _SCRIPT.finditer(text, start, stop):
        span, name = script.span(), script[0]
        if is_commented_out(text, span[0]):
            continue
        what = f"`{name}` is a script of Petastorm"
        if absent := missing(SCRIPTS[name]):
            yield _absent(rule, span, what, absent)
        elif _ALONE.search(text, _line(text, start, span[0]), span[0]):
            remedy = f"{what}: run `{renamed(name)}` from mdstorm instead"
            yield Finding(rule, "manual", *span, what, remedy, topic="run")
        elif _is_installed_program(text, start, *span):
            yield Edit(rule, "exact", *span, renamed(name), "run mdstorm's script", topic="run")
        else:
            remedy = f"{what}: run `{renamed(name)}` instead"
            yield Finding(rule, "manual", *span, what, remedy, holds=OLD_ROOT, topic="run")
    commands = []
    for code in _CODE.finditer(text, start, stop):
        commands.append(code.span())
        if not is_commented_out(text, code.start()):
            yield from renamed_in_code(text, rule, *code.span("code"))
    for one in _IMPORT.finditer(text, start, stop):
        if not any(before <= one.start() < end for before, end in commands):
            what = "Python code here imports Petastorm"
            remedy = f"{what}: import mdstorm instead"
            yield Finding(rule, "manual", *one.span("path"), what, remedy, holds=OLD_ROOT)


def _line(text: str, start: int, at: int) -> int:
    """Return where the line with a position begins, but not before `start`."""
    return max(text.rfind("\n", 0, at) + 1, start)


def _is_installed_program(text: str, start: int, at: int, stop: int) -> bool:
    """Whether a name is that of an installed script that is called, not of another file."""
    before = _PROGRAM.search(text, _line(text, start, at), at)
    if before is None or before["python"] or not _IS_CALLED.match(text, stop):
        return False
    return not before["folder"] or _PROGRAMS.fullmatch(before["folder"]) is not None


#: A module or script of mdstorm that is run, or an import of it in code that a command runs.
_RUNS_MDSTORM = re.compile(
    rf"""(?<![\w-])-m{_NEXT_WORD}{NEW_ROOT}(?![\w-]) | \b(?:from|import)[ \t]+{NEW_ROOT}\b
    | (?<![\w.-])(?<!\./)(?:{"|".join(map(re.escape, NEW_SCRIPTS))})(?={_CALLED})""",
    re.VERBOSE,
)


def libraries_run(text: str) -> Iterator[str]:
    """Yield the libraries that commands need.

    Petastorm is needed for what mdstorm does not have, or for code that is to be changed by hand.
    """
    if any(isinstance(one, Finding) and one.holds for one in runs(text, "", 0, len(text))):
        yield OLD_ROOT
    if any(not is_commented_out(text, one.start()) for one in _RUNS_MDSTORM.finditer(text)):
        yield NEW_ROOT


#: What separates commands in a string, and what may precede a program in one.
_SEPARATOR = re.compile(r"[;&|(\n]")
_BEFORE = re.compile(
    r"\s*(?:\w+=\S*\s+)*(?:(?:sudo|time|exec|env|nohup|(?:\S*/)?python[\d.]*)\b.*)?(?:\S*/)?"
)


def runs_in_string(
    command: str, rule: str, *, is_verbatim: bool = True, following: str = ""
) -> Iterator[Edit | Finding]:
    """Yield edits to what a string of code runs, if it is one or several commands, and findings.

    It may be a word of a command, of which other strings follow.

    A string in which no command begins with Petastorm's may be a message. There is no edit if the
    string is not verbatim in the code, but assembled from several.
    """
    for one in runs(command + following, rule, 0, len(command)):
        before, word = _SEPARATOR.split(command[: one.start])[-1], command[one.start : one.stop]
        if one.topic != "run" or not _BEFORE.fullmatch(before):
            continue
        if isinstance(one, Finding) or is_verbatim:
            yield one
        else:
            what = f"`{word}` is run here"
            remedy = f"{what}: use `{one.replacement}` instead"
            span = one.start, one.stop
            yield Finding(rule, "manual", *span, what, remedy, holds=OLD_ROOT, topic="run")


def _absent(rule: str, span: tuple[int, int], what: str, absent: str) -> Finding:
    """Return the finding about a command that needs a name that mdstorm does not have."""
    remedy = f"{what}: `{absent}` is not in mdstorm, so it needs Petastorm until you replace it"
    return Finding(rule, "manual", *span, what, remedy, holds=absent, topic="run")


def renamed_in_code(text: str, rule: str, start: int, stop: int) -> Iterator[Edit | Finding]:
    """Yield edits to code in a command, or a finding if mdstorm lacks a name that it uses."""
    code = text[start:stop]
    found = list(_NAME.finditer(text, start, stop))
    paths = [one["path"] for one in found]
    for module, names in _FROM.findall(code):
        paths += [f"{module}.{name}" for name in re.findall(r"(?<!\bas )\b(?!as\b)\w+", names)]
    is_compared = "__version__" in code and re.search(r"[=!<>]=|<|>|assert", code)
    absent = VERSION if is_compared else next(filter(None, map(missing, paths)), None)
    if found and absent:
        yield _absent(rule, found[0].span(), "code in this command uses Petastorm", absent)
        return
    for one in found:
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
    for found in re.finditer(rf"(?<![\w.-]){root}(?:[.:]\w+)*(?![\w.-])", text):
        start, stop = found.span()
        key = _KEY.search(text, max(start - 80, 0), start)
        if key and _AFTER.match(text, stop) and not is_commented_out(text, start):
            yield key["key"], found[0], start, stop
