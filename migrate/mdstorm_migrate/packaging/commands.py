"""Commands that install Petastorm or run its modules."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, pairwise, takewhile

from mdstorm_migrate.base.document import Document, DocumentKind
from mdstorm_migrate.base.edits import Edit, Finding
from mdstorm_migrate.packaging import acts
from mdstorm_migrate.packaging.requirement import Requirement, find_addresses, find_requirements
from mdstorm_migrate.packaging.rewriting import CONDA, RequirementPlace, manual, rewrite_requirement
from mdstorm_migrate.packaging.values import folded
from mdstorm_migrate.packaging.words import Command, Word, commands_of
from mdstorm_migrate.petastorm.names import (
    NEW_ROOT,
    NEW_SCRIPTS,
    OLD_ROOT,
    SCRIPTS,
    VERSION,
    is_within,
    missing,
    renamed,
)

#: The dotted names in code, and its imports from modules.
_NAME = re.compile(rf"""(?<![\w./"'-])(?P<path>{OLD_ROOT}(?:\.\w+)*)(?![\w/-])""")
_FROM = re.compile(rf"\bfrom\s+({OLD_ROOT}(?:\.\w+)*)\s+import\s*(\([\w,\s]+|[\w, \t]+)")


#: A comment in JSON, or a string, in which none begins.
_IN_JSON = re.compile(r""""(?:[^"\\\n]|\\.)*"|(?P<text>//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)""")
#: The title of a step or a task; without a dash before it, a list of packages has commas.
_TITLE = re.compile(
    r"^[ \t]*(?:-[ ]+(?:name|displayName)[ ]*:[ ]+(?P<text>\S+[ ][^\n]*)"
    r"|(?:name|displayName)[ ]*:[ ]+(?P<plain>[^\s,]+[ ][^\n,]*))$",
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


@lru_cache(maxsize=64)
def _command_text(kind: DocumentKind, text: str) -> str:
    if kind == "cluster":
        text = _blanked(_IN_JSON if text.lstrip().startswith("{") else _TITLE, text)
        text = folded(text)
    return _blanked(_MESSAGE, text) if "echo" in text or "printf" in text else text


def _blanked(pattern: re.Pattern[str], text: str) -> str:
    """Return a text with spaces where a pattern has a group with what is not run."""

    def blank(found: re.Match[str]) -> str:
        start, stop = (one - found.start() for one in found.span(found.lastgroup or 0))
        is_shown = found.lastgroup is not None
        return found[0][:start] + " " * (stop - start) + found[0][stop:] if is_shown else found[0]

    return pattern.sub(blank, text)


def commands_in(document: Document) -> Sequence[Command]:
    """Return the commands in a document."""
    is_code = document.kind == "python"
    return commands_of(document.code if is_code else command_text(document), document.kind)


#: How requirements are listed in the commands of the tools that can install mdstorm.
LISTED: dict[str, RequirementPlace] = {"pip": "word", "uv": "joined"}
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


def installed(
    text: str, commands: Iterable[Command], name: str = OLD_ROOT
) -> Iterator[tuple[str, Requirement]]:
    """Yield the requirements for a distribution in commands of a text, each with its tool."""
    for command in commands:
        if (by := acts.installs(command)) is None:
            continue
        starts = [one.start for one in command.words] + [command.stop]
        ends = dict(pairwise(starts))
        for word in (*by.packages, *by.editable):
            stop = max(ends.get(word.start, 0), word.stop)  # also a version after a space
            found_in = (find(text, word.start, stop, name) for find in _FINDING)
            for found in chain.from_iterable(found_in):
                if found.start < word.stop and (found.is_copy or word not in by.editable):
                    yield by.tool, found


_FINDING = (find_requirements, find_addresses)


def installs_all(commands: Iterable[Command]) -> bool:
    """Whether commands install packages, and name each of them instead of a list."""
    known = list(commands)
    is_any = any(acts.installs(one) is not None for one in known)
    return is_any and not any(map(acts.installs_project, known))


def rewrite_commands(document: Document, rule: str) -> Iterator[Edit | Finding]:
    """Yield edits and findings for commands that install Petastorm or run its modules.

    Options, quotes and other packages are kept. An unquoted version, which a shell would read as a
    redirection (``petastorm>=0.12``), is also removed.
    """
    commands = commands_in(document)
    for tool, found in installed(document.text, commands):
        if tool in LISTED or found.is_copy:
            yield from rewrite_requirement(document, found, rule, LISTED.get(tool, "word"))
        else:
            yield manual(found, rule, *_REFUSED[tool])
    yield from rewrite_runs(document, rule, commands)
    yield from looks(document, rule, commands)


def _is_beside_mdstorm(document: Document) -> bool:
    """Whether mdstorm is needed where commands run; those in code may run where only others are."""
    needs = document.needs
    return needs.moved and not (needs.importers and document.kind == "python")


def _is_guard(commands: Sequence[Command], at: int) -> bool:
    """Whether packages are installed if the command with a position fails."""
    later = (one for one in commands if one.words[0].start > at)
    return any(map(acts.installs, takewhile(lambda one: one.after == "||", later)))


def looks(document: Document, rule: str, commands: Sequence[Command]) -> Iterator[Edit | Finding]:
    """Yield edits and findings about commands that look for Petastorm where mdstorm is installed.

    A search whose failure installs it has an edit, because mdstorm would not be installed. While
    both libraries are needed, a person lets the command look for both.
    """
    needs, places = document.needs, range(len(commands))
    if not _is_beside_mdstorm(document) or needs.is_unused:
        return
    is_both = bool(needs.importers)
    if is_both and any(acts.looks_for(commands, at, NEW_ROOT) for at in places):
        return
    for at in places:
        if (word := acts.looks_for(commands, at, OLD_ROOT)) is None:
            continue
        if not (needs.refuses or is_both) and _is_guard(commands, word.stop):
            yield Edit(rule, "exact", *word.span, NEW_ROOT, "look for mdstorm", topic="run")
        else:
            what = "this looks for Petastorm among the installed packages"
            remedy = f"{what}: {'also ' * is_both}look for mdstorm"
            yield Finding(rule, "manual", *word.span, what, remedy)


def _unmoved(document: Document, at: int, commands: Sequence[Command]) -> str | None:
    """Return the module that stays on Petastorm and has the class for the command at a position.

    The command names the class as the dotted name of an object that it imports. Code that is linked
    to the class stays with it.
    """
    ran = (one for one in commands if any(word.start <= at <= word.stop for word in one.words))
    paths = (acts.value_of(one, "--unischema_class") for one in ran)
    name = next(filter(None, paths), "").rpartition(".")[0].replace(".", "/")
    importers = document.needs.importers if name else ()
    files = [one.removesuffix(".py").removesuffix("/__init__") for one in importers]
    if document.kind == "python":
        return next(iter(files), None)
    return next((one for one in files if one == name or one.endswith(f"/{name}")), None)


def rewrite_runs(
    document: Document, rule: str, commands: Sequence[Command]
) -> Iterator[Edit | Finding]:
    """Yield edits to commands that run Petastorm's modules.

    If only Petastorm is installed there, code that works with either library is left, and other
    commands that mdstorm also has are changed by hand. Such code is also left in a notebook that
    needs Petastorm, because its commands run where it installs both.
    """
    needs, text = document.needs, document.text
    is_in_notebook = document.is_in_jupyter or document.kind == "magic"
    is_old = needs.refuses or is_in_notebook or not _is_beside_mdstorm(document)
    for one in runs(text, rule, commands):
        if isinstance(one, Finding):
            is_wanted = bool(one.holds) or not needs.is_unused
        else:
            is_code = text[one.start : one.stop] == OLD_ROOT  # not a module or script
            is_left = is_code and needs.importers and (is_old or _is_guard(commands, one.stop))
            is_wanted = not (needs.is_unused or is_left)
        if not is_wanted:
            continue
        if isinstance(one, Edit) and (unmoved := _unmoved(document, one.stop, commands)):
            what = f"{unmoved}.py stays on Petastorm"
            remedy = f"{what}: once it has moved, use `{one.replacement}`"
            yield Finding(rule, "manual", one.start, one.stop, what, remedy, topic="run")
        elif (needs.moved and not needs.refuses) or isinstance(one, Finding):
            yield one
        else:
            what = f"`{text[one.start : one.stop]}` is also in mdstorm"
            remedy = f"{what}: once mdstorm is installed here, use `{one.replacement}`"
            yield Finding(rule, "manual", one.start, one.stop, what, remedy, topic="run")


def runs(text: str, rule: str, commands: Iterable[Command]) -> Iterator[Edit | Finding]:
    """Yield edits to commands of a text that run what mdstorm also has.

    What needs Petastorm gets a finding that holds its requirement, as does a script that cannot be
    edited, such as an argument of ``spark-submit``.
    """
    known = [(command, list(acts.runs(command))) for command in commands]
    codes = [one.word for _, ran in known for one in ran if one.kind == "code"]
    for command, found in known:
        for ran in found:
            if ran.kind == "code":
                yield from renamed_in_code(text, rule, *ran.word.span)
            elif ran.kind == "module" and is_within(ran.word.text, OLD_ROOT):
                yield from _module(ran.word, rule)
            elif ran.kind == "script" and ran.word.text in SCRIPTS:
                yield _script(command, ran, rule)
        word = acts.imports(command, OLD_ROOT)
        if word is not None and not any(one.start <= word.start < one.stop for one in codes):
            what = "Python code here imports Petastorm"
            remedy = f"{what}: import mdstorm instead"
            yield Finding(rule, "manual", *word.span, what, remedy, holds=OLD_ROOT)


def _module(word: Word, rule: str) -> Iterator[Edit | Finding]:
    """Yield the edit to a module of Petastorm that a command runs, or a finding."""
    if absent := missing(word.text):
        yield _absent(rule, word.span, f"`{word.text}` is run here", absent)
    elif word.text != OLD_ROOT:
        yield Edit(
            rule, "exact", *word.span, renamed(word.text), "run mdstorm's module", topic="run"
        )


def _script(command: Command, ran: acts.RunTarget, rule: str) -> Edit | Finding:
    """Return the edit to a script of Petastorm that a command runs, or a finding."""
    span, name = ran.word.span, ran.word.text
    what = f"`{name}` is a script of Petastorm"
    if absent := missing(SCRIPTS[name]):
        return _absent(rule, span, what, absent)
    if acts.is_alone(command, ran.at):
        remedy = f"{what}: run `{renamed(name)}` from mdstorm instead"
        return Finding(rule, "manual", *span, what, remedy, topic="run")
    if acts.is_called(command, ran.at):
        return Edit(rule, "exact", *span, renamed(name), "run mdstorm's script", topic="run")
    remedy = f"{what}: run `{renamed(name)}` instead"
    return Finding(rule, "manual", *span, what, remedy, holds=OLD_ROOT, topic="run")


def libraries_run(text: str, commands: Sequence[Command]) -> Iterator[str]:
    """Yield the libraries that commands of a text need.

    Petastorm is needed for what mdstorm does not have, or for code that is to be changed by hand.
    """
    if any(isinstance(one, Finding) and one.holds for one in runs(text, "", commands)):
        yield OLD_ROOT
    if any(acts.needs_library(one, NEW_ROOT, NEW_SCRIPTS) for one in commands):
        yield NEW_ROOT


def runs_in_string(
    text: str, commands: Sequence[Command], rule: str, *, is_verbatim: bool = True
) -> Iterator[Edit | Finding]:
    """Yield edits to what a string of code runs, if it is one or several commands, and findings.

    It may be a word of a command. A string in which no command begins with Petastorm's may be a
    message. There is no edit if the string is not verbatim in the code, but assembled from several.
    """
    for one in runs(text, rule, [one for one in commands if acts.is_begun(one)]):
        if one.topic != "run" or not 0 <= one.start < len(text):
            continue
        if isinstance(one, Finding) or is_verbatim:
            yield one
        else:
            what = f"`{text[one.start : one.stop]}` is run here"
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
    uses = list(_NAME.finditer(text, start, stop))
    paths = [one["path"] for one in uses]
    for module, names in _FROM.findall(code):
        paths += [f"{module}.{name}" for name in re.findall(r"(?<!\bas )\b(?!as\b)\w+", names)]
    is_compared = "__version__" in code and re.search(r"[=!]=|[<>]", code)
    absent = VERSION if is_compared else next(filter(None, map(missing, paths)), None)
    if uses and absent:
        yield _absent(rule, uses[0].span(), "code in this command uses Petastorm", absent)
        return
    for one in uses:
        at, end = one.start(), one.start() + len(OLD_ROOT)
        yield Edit(rule, "exact", at, end, NEW_ROOT, "import mdstorm", topic="run")
