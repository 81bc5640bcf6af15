"""Commands that run code of Petastorm's: its programs, its scripts, ``python -c``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Class, Edit, Finding
from mdstorm_migrate.packaging.commands import command_requirements
from mdstorm_migrate.packaging.comments import is_commented_out
from mdstorm_migrate.packaging.installed_files import report_installed_files
from mdstorm_migrate.packaging.one_line import line_around, plain_imports
from mdstorm_migrate.packaging.prose import is_prose, is_searched_for
from mdstorm_migrate.packaging.rewriting import rewrite_requirement
from mdstorm_migrate.packaging.script_paths import folder_of, may_hold_scripts, python_of
from mdstorm_migrate.packaging.sentences import MAY_SPEAK, is_sentence
from mdstorm_migrate.petastorm.names import NEW_ROOT, OLD_ROOT

#: The same between the items of a list, each on a line of its own, or without quotes.
_ITEM = r"""(?:[ \t]+|["']?[ \t]*,\s*["']?|["']?[ \t]*\r?\n[ \t]*-[ \t]+["']?)"""
#: ``python`` in a command, before ``-m``: after others, such as pytest, that is no module.
_PYTHON = re.compile(r"python(?:(?!py\.?test)(?:[^\n\\;&|]|\\[ \t]*\r?\n|\\.))*\Z", re.IGNORECASE)
#: How far before ``-m`` that is looked for, in characters.
_BEFORE = 300
#: Code of Petastorm's that a command runs: ``python -c "import petastorm"``, ``python -m
#: petastorm.etl…``, its own scripts.
_RUN = re.compile(
    r"(?:(?:\bimport[ \t]+(?:[\w.]+[ \t]*,[ \t]*)*(?P<code>petastorm)"
    rf"|\bfrom[ \t]+(?P<part>petastorm)"
    rf"(?=(?:\.\w+)*[ \t]+import\b))"
    rf"|(?<![\w-])-m{_ITEM}(?P<module>petastorm(?:\.\w+)*))(?![\w-])"
    r"|(?<![\w.-])(?P<script>petastorm-[a-z-]+\.py)\b"
)
#: The modules of mdstorm that do what Petastorm's scripts do.
_SCRIPTS = {
    "petastorm-copy-dataset.py": "mdstorm.tools.copy_dataset",
    "petastorm-generate-metadata.py": "mdstorm.etl.petastorm_generate_metadata",
    "petastorm-throughput.py": "mdstorm.benchmark.cli",
}
#: Modules that are programs in both libraries.
_PROGRAMS = frozenset(
    ["petastorm.etl.metadata_util", *(f"petastorm{one[7:]}" for one in _SCRIPTS.values())]
)
#: A command that only says something, up to a part of it.
_SAYS = re.compile(r"(?:^|[;&|!])[ \t]*@?(?:echo|printf)\b[^;&|>]*\Z")
#: How Python, or a variable that holds it, is given code.
_RUNS_CODE = re.compile(
    r"""(?:\bpython[\d.]*|\$[({]?PY)[)}"']*[ \t]+(?:-\w+[ \t]+)*-c[ \t]+\\*["']""", re.IGNORECASE
)
#: What is said of a part of a line for which its installs wait.
RUN_HERE = "is run here"
#: What stands before the name of a command, in shells, INI files, YAML and Dockerfiles.
_COMMAND = re.compile(
    r"(?:^|[;&|({!@-]|\bRUN|\b(?:run|script):|\bthen|\bdo|\bcommands?[ \t]*[=:]|%sh"
    r"|[=:][ \t]*[\"'])[ \t]*\Z"
)
#: Behind a script that is the name of an entry point, which is no command.
_ENTRY_POINT = re.compile(r"""["']?[ \t]*=[ \t]*["']?[\w.]+:""")
#: What hands the lines that follow to Python, up to their mark.
_HEREDOC = re.compile(
    r"""\bpython[\d.]*[ \t](?:[^\n;&|]*[ \t])?<<-?[ \t]*\\?["']?(?P<mark>\w+)["']?[^\n]*\n"""
)
#: Petastorm's version in code, and what compares it.
_VERSION = re.compile(r"\bpetastorm\.__version__|\bversion\([\\\"']*petastorm\b")
_DECIDES = re.compile(r"[<>=!]=|[<>]|\b(?:assert|if|exit|startswith)\b")


def rewrite_runs(
    document: Document, rule: str, *, in_prose: bool = False
) -> Iterator[Edit | Finding]:
    """Rewrite commands that run Petastorm's programs; report others that run code of Petastorm's.

    A module is run by the same command under mdstorm's name. Petastorm's scripts are not installed
    by mdstorm: their modules do the same, if ``python`` is the Python that has them. Commands of
    one text move together, and with the code beside it. Plain imports by ``python -c`` move with
    the install in their line. In prose, import statements that no command runs are left alone.
    """
    text, needs = document.text, document.needs
    runs = [
        match
        for match in _runs_in(text)
        if not (in_prose and (match["code"] or match["part"]) and not _is_code(text, match))
        and not (
            match["script"] and (_is_own(text, match) or _ENTRY_POINT.match(text, match.end()))
        )
        and not _is_marker(text, match)
        and not _is_said(text, match)
        and not ((match["code"] or match["part"]) and _is_shown(text, match.start()))
    ]
    yield from report_installed_files(document, rule)
    cls: Class = "review" if any(match["script"] in _SCRIPTS for match in runs) else "exact"
    done: list[Edit] = []
    for match in runs:
        module, script = match["module"], match["script"]
        if needs.importers and not needs.moved:
            what = f"this command stays: {needs.who_stays} Petastorm"
            yield Finding(rule, "note", *match.span(), what)
        elif document.kind in MAY_SPEAK and is_sentence(text, match.start()):
            what = "this text speaks of a command that runs Petastorm"
            yield Finding(rule, "note", *match.span(), what)
        elif module in _PROGRAMS:
            start = match.start("module")
            message = f"run `mdstorm{module[9:]}`, which takes the same arguments"
            stop = start + len(OLD_ROOT)
            yield Edit(rule, cls, start, stop, NEW_ROOT, message, topic="run")
        elif script in _SCRIPTS and _is_command(text, match):
            folder = folder_of(text, match.start())
            new = f"{python_of(folder)} -m {_SCRIPTS[script]}"
            message = f"run `{new}` instead of `{script}`, if that is the Python that has mdstorm"
            start = match.start() - len(folder)
            yield Edit(rule, "review", start, match.end(), new, message, topic="run")
        elif edits := _imports(document, match, rule):
            yield from (edit for edit in edits if edit not in done)
            done += edits
        elif _asks_for_version(text, match):
            what = "this command decides by the version of Petastorm"
            remedy = f"{what}, and mdstorm has versions of its own: take this out"
            yield Finding(rule, "manual", *match.span(), what, remedy)
        else:
            what = f"this command runs Petastorm: `{match[0]}`"
            remedy = "name mdstorm here, or take this out"
            yield Finding(rule, "manual", *match.span(), what, remedy)


def _asks_for_version(text: str, run: re.Match[str]) -> bool:
    """Whether the code that a line runs decides by Petastorm's version."""
    is_code = run["code"] or run["part"]
    code = text[run.start() : line_around(text, run.start())[1]]
    return bool(is_code and _VERSION.search(code) and _DECIDES.search(code))


def _is_command(text: str, run: re.Match[str]) -> bool:
    """Whether a script is the first word of a command, and not one of a list of its words."""
    folder = folder_of(text, run.start())
    before = text[: run.start() - len(folder)].rpartition("\n")[2]
    rest = text[run.end() :].partition("\n")[0]
    # A path alone is of a list of words or of files: the scripts need arguments.
    is_item = (folder or before.lstrip().startswith("- ")) and not rest.strip("\"' \t\r")
    return bool(_COMMAND.search(before) and not is_item and python_of(folder))


def _is_own(text: str, run: re.Match[str]) -> bool:
    """Whether a script lies in a folder of the project, and is none that Petastorm installs."""
    folder = folder_of(text, run.start())
    return bool(folder) and not (run["script"] in _SCRIPTS and may_hold_scripts(folder))


def _is_shown(text: str, position: int) -> bool:
    return is_prose(text, position) or is_searched_for(text, position)


def _is_run(text: str, run: re.Match[str]) -> bool:
    """Whether a statement is what ``python -c`` runs."""
    before = text[max(run.start() - _BEFORE, 0) : run.start()].rpartition("\n")[2]
    return _RUNS_CODE.search(before) is not None


def _is_code(text: str, run: re.Match[str]) -> bool:
    """Whether a statement is what ``python -c`` runs, or Python in lines that a shell hands it."""
    if _is_run(text, run):
        return True
    above = list(_HEREDOC.finditer(text, 0, run.start()))
    if not above:
        return False
    mark = re.compile(rf"^[ \t]*{above[-1]['mark']}[ \t]*$", re.MULTILINE)
    return mark.search(text, above[-1].end(), run.start()) is None


def run_beside(text: str, position: int) -> str | None:
    """Say what of Petastorm's the line of a command runs that does not move with it; else None."""
    for match in _runs_in(text, *line_around(text, position)):
        if match["script"] in _SCRIPTS and _is_command(text, match):
            return f"`{match['script']}` {RUN_HERE}, and mdstorm has it as a module"
        is_program = match["module"] and match["module"] not in _PROGRAMS
        is_code = (match["code"] or match["part"]) and _is_run(text, match)
        if (is_program and not _is_marker(text, match)) or (
            is_code and not plain_imports(text, match.start())
        ):
            return f"`{match[0]}` {RUN_HERE}, in code that is for you to change"
    return None


def _runs_in(text: str, start: int = 0, stop: int | None = None) -> Iterator[re.Match[str]]:
    for match in _RUN.finditer(text, start, len(text) if stop is None else stop):
        if not is_commented_out(text, match.start()):
            yield match


def _imports(document: Document, run: re.Match[str], rule: str) -> list[Edit]:
    """Return edits of imports that ``python -c`` runs, if an install in the same line moves."""
    text = document.text
    spans = plain_imports(text, run.start()) if run["code"] or run["part"] else []
    line = line_around(text, run.start())
    if not spans or not _is_run(text, run) or run_beside(text, run.start()):
        return []
    moved = [
        one.cls
        for tool, found in command_requirements(text)
        if tool == "pip" and line[0] <= found.start < line[1]
        for one in rewrite_requirement(document, found, rule, "word")
        if isinstance(one, Edit)
    ]
    cls: Class = "exact" if set(moved) == {"exact"} else "review"
    message = "run `import mdstorm`, which is installed here"
    return [Edit(rule, cls, *span, NEW_ROOT, message, topic="run") for span in spans if moved]


def _is_marker(text: str, run: re.Match[str]) -> bool:
    """Whether ``-m petastorm`` is an option of another command than Python, as of pytest."""
    before = text[max(run.start() - _BEFORE, 0) : run.start()]
    return run["module"] == OLD_ROOT and _PYTHON.search(before) is None


def _is_said(text: str, run: re.Match[str]) -> bool:
    """Whether an import statement is what ``echo`` says, to nobody but people."""
    before = text[text.rfind("\n", 0, run.start()) + 1 : run.start()]
    rest = text[run.end() :].partition("\n")[0]
    is_code = bool(run["code"] or run["part"])
    return is_code and _SAYS.search(before) is not None and not re.search(r"[>|]", rest)
