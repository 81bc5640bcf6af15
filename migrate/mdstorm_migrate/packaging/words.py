"""Commands as words: in shells, images, and the lists and values of YAML, JSON and TOML.

A splitter finds where words and commands begin and end. What they mean is decided by `acts`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from mdstorm_migrate.base.document import DocumentKind
from mdstorm_migrate.packaging.values import Value, ValueReader
from mdstorm_migrate.python.module import string_value


class Word(NamedTuple):
    """A word of a command, without quotation marks around it, and where it begins."""

    text: str
    start: int

    @property
    def stop(self) -> int:
        """Where it ends."""
        return self.start + len(self.text)

    @property
    def span(self) -> tuple[int, int]:
        """Its characters."""
        return self.start, self.stop


@dataclass(frozen=True)
class Command:
    """The words of a command, also those in front of its program.

    Attributes
    ----------
    words : tuple of Word
    stop : int
        Where the command ends, with what it redirects.
    after : str
        The operator that joins it with the command before it, as ``|`` or ``||``; the mark of the
        quotes or the substitution that it begins; ``:`` if it is a value.
    """

    words: tuple[Word, ...]
    stop: int
    after: str = ""


_QUOTED = r"""\\"(?:[^"\\]|\\(?!"))*\\" | "(?:[^"\\]|\\.)*" | '[^']*'"""
#: A part of a word: a template, a substitution, an escaped character, or a text in quotes. An
#: apostrophe within a word begins no quotes.
_PART = rf"""\$?\{{\{{[^}}\n]*\}}\}} | \$\((?:[^()\n]|\([^()\n]*\))*\) | \$\{{[^}}\n]*\}}
    | (?<!\w)(?:{_QUOTED}) | \\[^\r\n] | [^\s;&|()`<>\\]"""
#: An operator is not glued to the number in front of a redirection; ``>=`` within a word is one of
#: a version.
_TOKEN = re.compile(
    rf"""(?P<gap> (?: [ \t\r] | \\[ \t]*\r?\n(?:[ \t]*\#[^\n]*\n)* )+ )
    | (?P<comment> \#[^\n]* )
    | (?P<redirect> (?:\d|&)?(?:<<-?|>>|>|<)[&|]?[ \t]* )
    | (?P<operator> && | \|[|&]? | ;+ | \n | & | [()`] | [{{}}](?=\s) )
    | (?P<word> (?:{_PART}) (?: {_PART} | [<>](?=[=\w$]) )* )""",
    re.VERBOSE | re.DOTALL,
)
_SPACE = re.compile(r"\s")
_WHOLE = re.compile(r"(?P<mark>\\?[\"'])(?P<text>(?:(?!(?P=mark)).|(?<=\\).)*)(?P=mark)", re.DOTALL)
#: A text in quotes or in a substitution, which may have commands.
_INSIDE = re.compile(rf"{_QUOTED} | \$\((?:[^()\n]|\([^()\n]*\))*\)", re.VERBOSE | re.DOTALL)


def split(text: str, at: int = 0, after: str = "") -> Iterator[Command]:
    """Yield the commands in a text that a shell reads, which begins at a position of a document.

    Commands in quotes and in substitutions follow the one around them.
    """
    words: list[Word] = []
    inner: list[Command] = []
    is_target, position = False, 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:  # a backslash at the end
            position += 1
            continue
        position = token.end()
        if token.lastgroup == "word":
            if not is_target:
                inner += _inside(token["word"], at + token.start())
                words.append(_word(token["word"], at + token.start()))
            is_target = False
        elif token.lastgroup == "redirect":
            is_target = True
        elif token.lastgroup == "operator":
            is_target = False
            operator = token["operator"]
            if words:
                yield Command(tuple(words), at + token.start(), after)
                yield from inner
                words, inner, after = [], [], ""
            after = after if operator in "(){}`\n" else operator
    if words:
        yield Command(tuple(words), at + len(text), after)
        yield from inner


def _word(text: str, at: int) -> Word:
    found = _WHOLE.fullmatch(text)
    return Word(text, at) if found is None else Word(found["text"], at + found.start("text"))


def _inside(text: str, at: int) -> Iterator[Command]:
    """Yield the commands in the quotes and substitutions of a word."""
    for found in _INSIDE.finditer(text) if any(mark in text for mark in "\"'$") else ():
        first = 1 if found[0][0] in "\"'" else 2
        last = 2 if found[0].startswith("\\") else 1
        value = found[0][first:-last]
        if _SPACE.search(value) is not None:
            yield from split(value, at + found.start() + first, found[0][0])


@lru_cache(maxsize=256)
def shell(text: str) -> Sequence[Command]:
    """Return the commands in a text that a shell reads."""
    return tuple(split(text))


# A file is read whole and by its parts, of which a workflow has dozens, several times each.
@lru_cache(maxsize=64)
def commands_of(text: str, kind: DocumentKind) -> Sequence[Command]:
    """Return the commands in the text of a document, as `command_text` returns it."""
    find = _FINDERS.get(kind)
    return tuple(find(text)) if find is not None else ()


# Values, which may be commands or words


#: Keys with a command, those with further words of it, and what gets the value of others.
_PROGRAMS = frozenset({"cmd", "command", "entrypoint"})
_ARGUMENTS = frozenset({"args", "arguments"})
_PROGRAM_OF = {
    **dict.fromkeys(
        ("working-directory", "working_directory", "working_dir", "workingDirectory"), "cd"
    ),
    "python_file": "python",
}
#: A line break in double quotes.
_BREAK = re.compile(r"\\[nr]")


def _of_values(text: str, values: Iterator[Value]) -> Iterator[Command]:
    """Yield the commands in values; the arguments of a container belong to its command."""
    waiting: dict[tuple[int, bool], Command] = {}
    for items in _lists(values):
        first, found = items[0], [*_of_list(text, items)]
        place = first.owner, first.key in _ARGUMENTS
        if first.key in _PROGRAMS | _ARGUMENTS and found and place not in waiting:
            waiting[place] = found.pop(0)
        yield from found
    for (owner, is_arguments), command in waiting.items():
        further = waiting.get((owner, True))
        if is_arguments:
            yield from [] if (owner, False) in waiting else [command]
        elif further is None:
            yield command
        else:
            yield Command((*command.words, *further.words), further.stop)


def _lists(values: Iterator[Value]) -> Iterator[list[Value]]:
    """Yield the items of each list together, and each other value by itself."""
    found: dict[int, list[Value]] = {}
    for number, one in enumerate(values):
        found.setdefault(one.item_of or -number - 1, []).append(one)
    yield from found.values()


def _of_list(text: str, items: Sequence[Value]) -> Iterator[Command]:
    """Yield the command whose words are the items of a list, or those in each of them."""
    words = [Word(text[one.start : one.stop], one.start) for one in items]
    if program := _PROGRAM_OF.get(items[0].key):
        if program == "cd" and words[0].text.startswith("/"):
            return  # a folder in a container, which may be that of the project
        yield Command((Word(program, words[0].start), words[0]), words[0].stop)
        return
    is_argument = items[0].key in _ARGUMENTS
    is_whole = items[0].item_of > 0 and (is_argument or _SPACE.search(words[0].text) is None)
    if is_whole:
        yield Command(tuple(words), words[-1].stop)
    for before, one, word in zip(["", *(one.text for one in words)], items, words, strict=False):
        if not is_whole or _SPACE.search(word.text) is not None:
            value = unescaped(word.text) if one.style == "double" else word.text
            is_block = text[one.start - 1] == "\n"
            yield from split(value, one.start, "" if is_block or before == "-c" else ":")


def unescaped(text: str) -> str:
    """Return a text in double quotes with its line breaks, of the same length."""
    return _BREAK.sub(" \n", text)


# Strings in code


def _of_code(text: str) -> Iterator[Command]:
    """Yield the commands in strings of code, and those whose words are items or arguments.

    Positions in strings with escaped characters are not exact.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    starts = [0, *(one.end() for one in re.finditer(r"\r\n?|\n", text))]

    def place(node: ast.expr) -> int:
        return starts[node.lineno - 1] + node.col_offset + 1

    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            is_text = _SPACE.search(node.value) is not None
            yield from split(node.value, place(node)) if is_text else ()
        items = node.args if isinstance(node, ast.Call) else getattr(node, "elts", ())
        if items:
            words = tuple(Word(word_in_code(one), place(one)) for one in items)
            yield Command(words, words[-1].stop)


def word_in_code(node: ast.expr) -> str:
    """Return a string in code as a word, or another expression as it is written."""
    value = string_value(node)
    return ast.unparse(node) if value is None else value


# Instructions of images


_INSTRUCTION = re.compile(r"^[ \t]*(?P<name>[A-Za-z]+)[ \t]+", re.MULTILINE)
_OPTIONS = re.compile(r"(?:--[\w-]+=\S+[ \t]+)+")
_CONTINUED = re.compile(r"(?:[^\\\n]|\\[ \t]*\r?\n(?:[ \t]*(?:\#[^\n]*)?\r?\n)*|\\.)*", re.DOTALL)
_DOCUMENT = re.compile(r"<<-?[\"']?(?P<tag>\w+)")
_RUNNING = frozenset({"RUN", "CMD", "ENTRYPOINT", "HEALTHCHECK", "SHELL"})


def instructions(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield the name of each instruction of an image, and the span of what follows it."""
    at = 0
    while instruction := _INSTRUCTION.search(text, at):
        line = _CONTINUED.match(text, instruction.end())
        at = line.end() if line is not None else instruction.end()
        document = _DOCUMENT.search(text, instruction.end(), at)
        if document is not None:
            end = re.compile(rf"^[ \t]*{document['tag']}[ \t]*\r?$", re.MULTILINE).search(text, at)
            at = end.end() if end is not None else len(text)
        yield instruction["name"].upper(), instruction.end(), at


def _of_image(text: str) -> Iterator[Command]:
    for name, start, stop in instructions(text):
        if name in _RUNNING and (options := _OPTIONS.match(text, start)):
            start = options.end()
        if name in _RUNNING and text.startswith("[", start):
            reader = ValueReader(text[start:stop])
            values = (
                one._replace(start=one.start + start, stop=one.stop + start)
                for one in reader.values()
            )
            yield from _of_values(text, values)
        else:
            yield from split(text[start:stop], start)


#: Finds the commands in the text of each kind of document that has any.
_FINDERS: dict[DocumentKind, Callable[[str], Iterable[Command]]] = {
    "cluster": lambda text: _of_values(text, ValueReader(text).values()),
    "docker": _of_image,
    "magic": split,
    "pipfile": lambda text: _of_values(text, ValueReader(text).settings()),
    "pyproject": lambda text: _of_values(text, ValueReader(text).settings()),
    "python": _of_code,
    "setup_cfg": split,
    "shell": split,
}
#: Kinds of documents that may contain commands.
COMMANDS = frozenset(_FINDERS) - {"python"}
