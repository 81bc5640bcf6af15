"""What a command does, by its words: what it installs, runs and looks for.

What differs between tools is in tables. A program is found by its name at any place, because
others, such as ``sudo``, may be in front of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple

from mdstorm_migrate.packaging.words import Command, Word
from mdstorm_migrate.petastorm.names import NEW_ROOT, NEW_SCRIPTS, OLD_ROOT, SCRIPTS
from mdstorm_migrate.petastorm.names import words as words_of

#: What installs packages, by its verbs: ``pip`` for each tool with its notation.
_PIP = dict.fromkeys(("add", "download", "install", "wheel"), "pip")
_CONDA = dict.fromkeys(("create", "install", "update"), "conda")
_VERBS = {
    **dict.fromkeys(("pip", "pipenv", "poetry", "uv", "pdm"), _PIP),
    **dict.fromkeys(("conda", "mamba", "micromamba"), _CONDA),
    "pipx": {"install": "pipx"},
    "uvx": {},
}
#: What runs a program with packages that follow the option.
_WITH = "--with"
#: Options of installers that are followed by something other than a package.
_VALUED = words_of(
    "-c -d -f -i -n -p -r -t -w -E -G --constraint --dest --extra --extras --file --find-links "
    "--group --index-url --extra-index-url --name --no-binary --only --only-binary --optional "
    "--prefix --python --reinstall-package --refresh-package --upgrade-package --requirement "
    "--target --with --without"
)
_LISTS = frozenset({"-r", "--requirement"})
_EDITABLE = frozenset({"-e", "--editable"})
#: Programs that install the project that they are run in, if these words follow.
_OF_PROJECT = {
    **dict.fromkeys(("nox", "pdm", "pipenv", "poetry", "tox"), frozenset[str]()),
    "uv": frozenset({"run", "sync"}),
    **dict.fromkeys(("conda", "mamba", "micromamba"), frozenset({"env"})),
}
#: What runs the module after ``-m``: interpreters and launchers of modules.
_INTERPRETERS = frozenset({"py", "pypy", "python", "pythonw", "sys.executable"})
_LAUNCHERS = frozenset({"accelerate", "coverage", "kernprof", "torchrun"})
#: Programs and modules that run code which is not named.
_RUNNERS = frozenset({"make", "nox", "poetry", "pytest", "tox", "uv"})
#: Programs in front of another one.
_IN_FRONT = frozenset({"env", "exec", "nohup", "sudo", "time"})
#: What runs a script in an environment of its own, with the package after the option.
_ALONE = frozenset({"--from", "--spec"})
#: The option for the program that a container runs, with the words after its image.
_IN_IMAGE = "--entrypoint"
#: The option that each call of a script of Petastorm has.
_OPTION_OF_SCRIPTS = "--dataset_url"
_CODE = (".py", ".ipynb")
#: Several rules ask about each command of a file, and files repeat words and commands.
_kept = lru_cache(maxsize=1 << 12)


@_kept
def _names(word: str) -> tuple[str, ...]:
    """Return the programs that a word may be, without a folder and a version."""
    last = word.replace("\\", "/").rpartition("/")[2].lower().removesuffix(".exe")
    if any(mark in last for mark in "$%{("):  # a variable, perhaps with a default
        names = "".join(one if one.isalnum() or one == "." else " " for one in last).split()
    else:
        names = [last.lstrip("@!-.*^")]
    return tuple(one.rstrip("0123456789.") or one for one in names)


def _is_program(word: str, names: frozenset[str] | dict[str, frozenset[str]]) -> bool:
    return any(one in names for one in _names(word))


def is_interpreter(word: str) -> bool:
    """Whether a word is an interpreter of Python, also in a variable."""
    return _is_program(word, _INTERPRETERS)


@dataclass(frozen=True)
class Installs:
    """What a command installs.

    Attributes
    ----------
    tool : str
        ``pip``; ``alone`` for pip without what packages require; ``uv`` for packages of a program
        that is run; ``pipx`` for a program with an environment; ``conda``.
    packages, editable : list of Word
        Also folders and addresses.
    lists : list of Word
    """

    tool: str
    packages: list[Word] = field(default_factory=list)
    editable: list[Word] = field(default_factory=list)
    lists: list[Word] = field(default_factory=list)


@_kept
def installs(command: Command) -> Installs | None:
    """Return what a command installs, or None if it installs no packages that it names."""
    words = command.words
    for at, word in enumerate(words):
        for name in _names(word.text):
            verbs = _VERBS.get(name)
            if verbs is None or (at and words[at - 1].text in _ALONE):
                continue
            if (found := _installed_by(name, verbs, words[at + 1 :])) is not None:
                return found
    return None


def _installed_by(name: str, verbs: dict[str, str], words: Sequence[Word]) -> Installs | None:
    """Return what a tool installs whose name these words follow."""
    if name == "uvx" or (name == "uv" and "run" in [one.text for one in words[:2]]):
        return _beside(words)
    for at, word in enumerate(words):
        if name == "uv" and word.text == "tool":
            verbs = _VERBS["pipx"]
        elif word.text in verbs:
            return _arguments(verbs[word.text], words[at + 1 :])
        elif not word.text.startswith("-") and word.text != "pip":
            break
    return None


def _beside(words: Sequence[Word]) -> Installs | None:
    """Return the packages after the option of what runs a program with them."""
    installed = Installs("uv")
    for before, word in zip(("", *(one.text for one in words)), words, strict=False):
        option, _, value = word.text.partition("=")
        if before == _WITH:
            installed.packages.append(word)
        elif option == _WITH and value:
            installed.packages.append(Word(value, word.stop - len(value)))
    return installed if installed.packages else None


def _arguments(tool: str, words: Sequence[Word]) -> Installs:
    installed = Installs("alone" if tool == "pip" and "--no-deps" in _texts(words) else tool)
    option = ""
    for word in words:
        name, mark, value = word.text.partition("=")
        if not option and word.text.startswith("-"):
            if mark:
                word = Word(value, word.stop - len(value))
            elif word.text[:2] in ("-r", "-e") and len(word.text) > 2:
                name, word = word.text[:2], Word(word.text[2:], word.start + 2)
            else:
                option = word.text if word.text in _VALUED | _EDITABLE else ""
                continue
            option = name if name.startswith("-") else ""
        elif not option:
            installed.packages.append(word)
            continue
        if option in _LISTS:
            installed.lists.append(word)
        elif option in _EDITABLE:
            installed.editable.append(word)
        option = ""
    return installed


def _texts(words: Sequence[Word]) -> list[str]:
    return [one.text for one in words]


def takes_value(option: str) -> bool:
    """Whether an option of an install command is followed by something other than a package."""
    return option in _VALUED | _EDITABLE


def is_folder(text: str) -> bool:
    """Whether a word of an install command is a folder, and so a project with its requirements."""
    path = text.partition("[")[0]
    return "://" not in path and "@" not in path and (path.startswith(".") or "/" in path)


def installs_project(command: Command) -> bool:
    """Whether a command installs a list, or a project with its requirements."""
    found = installs(command)
    if found and (found.lists or found.editable):
        return True
    if found and any(one.text.startswith(".") for one in found.packages):
        return True
    words = _texts(command.words)
    for at, word in enumerate(words):
        for name in _names(word):
            needed = _OF_PROJECT.get(name)
            if needed is not None and (not needed or needed & {*words[at + 1 : at + 2]}):
                return True
    return False


def folders(command: Command) -> Iterator[str]:
    """Yield the folders into which a command goes, or whose projects it installs."""
    words = _texts(command.words)
    if "cd" in words[:-1]:
        yield words[words.index("cd") + 1]
    found = installs(command)
    if found is not None:
        yield from (one.text.partition("[")[0] for one in found.editable)
        yield from (one.text.partition("[")[0] for one in found.packages if is_folder(one.text))


class RunTarget(NamedTuple):
    """What a command runs: a ``module``, ``code``, a ``file``, or a ``script`` of a library.

    Attributes
    ----------
    kind : str
    word : Word
    at : int
        The number of the word.
    """

    kind: Literal["module", "code", "file", "script"]
    word: Word
    at: int


@_kept
def runs(command: Command) -> tuple[RunTarget, ...]:
    """Return what a command runs by Python, and the scripts of both libraries that it names."""
    return tuple(_runs(command))


def _runs(command: Command) -> Iterator[RunTarget]:
    words, texts = command.words, _texts(command.words)
    module = texts.index("-m") + 1 if "-m" in texts[:-1] else 0
    if module and runs_modules(texts[: module - 1]):
        yield RunTarget("module", words[module], module)
    for at, text in enumerate(texts[:-1]):
        program = text.removeprefix(f"{_IN_IMAGE}=")
        if is_interpreter(program):
            in_image = program != text or texts[at - 1 : at] == [_IN_IMAGE]
            first = texts.index("-c", at) if in_image and "-c" in texts[at:] else at + 1
            last = next((n for n in range(first, len(words)) if not _is_flag(texts[n])), at)
            if last > at and texts[last - 1] == "-c":
                yield RunTarget("code", words[last], last)
            elif last > at and texts[last].endswith(_CODE):
                yield RunTarget("file", words[last], last)
    for at, word in enumerate(words):
        folder, name = _split(word.text)
        if name in SCRIPTS or name in NEW_SCRIPTS:
            yield RunTarget("script", Word(name, word.start + len(folder)), at)


def _is_flag(text: str) -> bool:
    return text.startswith("-") and not text.startswith("--")


def _split(text: str) -> tuple[str, str]:
    """Return the folder or the key in front of the name of a file, and the name."""
    at = max(text.rfind(mark) for mark in "/\\=") + 1
    return text[:at], text[at:]


def runs_modules(before: Sequence[str]) -> bool:
    """Whether ``-m`` after the given words of a command names a module; without words, it may.

    Other programs, such as git and pytest, have an option with that name.
    """
    if "-m" in before:  # the program that it names has options
        return False
    is_run = any(_is_program(one, _INTERPRETERS | _LAUNCHERS) for one in before)
    return is_run or not any(character.isalpha() for one in before for character in one)


def is_alone(command: Command, at: int) -> bool:
    """Whether a word follows an option with the package of an environment of its own."""
    return any(one.text.partition("=")[0] in _ALONE for one in command.words[:at])


def is_called(command: Command, at: int) -> bool:
    """Whether a word is a script of a library that a command calls, not a file of that name.

    The folder with the programs of an environment may precede it; a relative ``bin`` is the
    project's.
    """
    before = _texts(command.words[:at])
    folder, _ = _split(command.words[at].text)
    is_file = any(map(is_interpreter, before[-1:])) or "spark-submit" in before
    is_option = any(one.startswith(_OPTION_OF_SCRIPTS) for one in _texts(command.words[at:]))
    return is_option and not is_file and (not folder or _has_programs(folder))


def _has_programs(folder: str) -> bool:
    parts = folder.replace("\\", "/").rstrip("/").split("/")
    is_local = [one for one in parts if one != "."] == ["bin"]
    return parts[-1] in ("bin", "Scripts") and not is_local and "://" not in folder


def value_of(command: Command, option: str) -> str:
    """Return the value of an option of a command, or an empty string."""
    texts = _texts(command.words)
    for before, text in zip(texts, [*texts[1:], ""], strict=True):
        name, mark, value = before.partition("=")
        if name == option:
            return value if mark else text
    return ""


def imports(command: Command, root: str) -> Word | None:
    """Return the library that a line of code imports, as in a here-document."""
    words = command.words
    if len(words) > 1 and not command.after and words[0].text in ("from", "import"):
        name = words[1].text.rstrip(",").partition(".")[0]
        return Word(name, words[1].start) if name == root else None
    return None


def needs_library(command: Command, root: str, scripts: Sequence[str]) -> bool:
    """Whether a command runs a module, a script or code of a library."""
    for one in runs(command):
        is_module = one.kind == "module" and one.word.text.partition(".")[0] == root
        is_script = one.kind == "script" and one.word.text in scripts
        if is_module or (is_script and is_called(command, one.at)):
            return True
    return imports(command, root) is not None


def is_begun(command: Command) -> bool:
    """Whether a text may be a command, not a message: its first word runs something."""
    rest = [one for one in _texts(command.words) if "=" not in one.partition("/")[0]]
    is_script = bool(rest) and _split(rest[0])[1] in SCRIPTS
    return not rest or is_script or is_interpreter(rest[0]) or _is_program(rest[0], _IN_FRONT)


def looks_for(commands: Sequence[Command], at: int, name: str) -> Word | None:
    """Return the word by which a command looks for a distribution among the installed ones."""
    words = commands[at].words
    texts = _texts(words)
    if _lists_packages(commands[at], ("show",)) and name in texts:
        return words[texts.index(name)]
    is_piped = at > 0 and commands[at].after in ("|", "|&")
    if is_piped and _lists_packages(commands[at - 1], ("freeze", "list")) and "grep" in texts:
        for word in words:
            if (start := word.text.find(name)) >= 0:
                return Word(name, word.start + start)
    return None


def _lists_packages(command: Command, verbs: Sequence[str]) -> bool:
    texts = _texts(command.words)
    return any("pip" in _names(one) and after in verbs for one, after in pairwise(texts))


def uses_code(command: Command) -> str:
    """Return how a command uses code of the project: by ``file``, ``other``, or not at all."""
    if installs_project(command):
        return "other"
    ran = [one for one in runs(command) if one.kind != "script"]
    for one in ran:
        root = one.word.text.partition(".")[0]
        if one.kind == "module" and root not in ("pip", "venv", OLD_ROOT, NEW_ROOT):
            return "other"
    if any(one.kind == "file" for one in ran):
        return "file"
    texts = [one for one in _texts(command.words) if " " not in one]
    is_named = any(one.endswith((*_CODE, ".sh")) and _split(one)[1] not in SCRIPTS for one in texts)
    return "other" if is_named or not _RUNNERS.isdisjoint(texts) else ""
