"""Sentences that speak of commands: values of exported data, lines of logs and notes."""

from __future__ import annotations

import re

from mdstorm_migrate.base.document import Kind

#: Kinds of documents that may hold sentences beside commands.
MAY_SPEAK: frozenset[Kind] = frozenset({"cluster", "text"})

#: A key whose value is a command, or a list of its words.
_RUNS = re.compile(
    r"(?:run|script|command|cmd|args?\b|argument|entrypoint|init|exec|shell|inline|install|setup"
    r"|bash|hook|bootstrap|user[-_]?data)",
    re.IGNORECASE,
)
#: Text in quotes that has several words, and the key before a value.
_QUOTED = re.compile(
    r"""(?<![\w\\])(?: "(?P<double>(?:[^"\\]|\\.)*)" | '(?P<single>[^'\n]*)' )""", re.VERBOSE
)
_KEY = re.compile(r"""(?P<key>[\w.-]+)["']?[ \t]*[:=][ \t]*\Z""")
_PLAIN = re.compile(r"""[ \t]*(?:-[ \t]+)*(?:["']?(?P<key>[\w.-]+)["']?:(?:[ \t]+|\Z))?""")
#: What ends a command, or begins a comment; a new line is escaped in JSON.
_ENDS = re.compile(r"\\n|&&|[;|]|(?<=\s)(?:#|//)(?=\s)")
_TEXTS = re.compile(r"""\\?"[^"]*"|(?<!\w)'[^']*'""")
#: Words of sentences that no command has: those that tell what came of it, and others.
_TELLING = re.compile(
    r"(?<![^\s(])(?:did|didn't|do(?:es)?n't|does|failed|fails|hangs|helped|helps|please|ran|tried"
    r"|was|were|worked|works)(?![\w=/-])",
    re.IGNORECASE,
)
_JOINING = re.compile(
    r"(?<![^\s(])(?:I|after|also|an|and|are|as|because|before|but|by|can|first|from|had|has|have"
    r"|he|instead|is|it|my|no|not|now|on|only|or|our|she|since|still|than|that|the|then|they|this"
    r"|to|use|used|using|via|we|when|which|will|with|without|would|you|your)(?![\w=/-])"
)
#: The mark behind a word, at the end of a sentence or of a part of it.
_MARK = re.compile(r"[A-Za-z0-9)`][.,!?](?=[\s]|\\|\Z)")
_CAPITAL = re.compile(r"[ \t]*[A-Z][a-z']+[ ]")
#: Accents around a command; those of a shell have its result for a value.
_ACCENT = re.compile(r"(?:^|[\s(])`+[^`]*\Z")


def is_sentence(text: str, position: int) -> bool:
    """Whether the command that is at a position is spoken of, so that nothing runs it.

    The value that has it, of YAML or of JSON, or else its line counts, up to where the shell would
    end the command. Where its key says that it is run, it is.
    """
    start = text.rfind("\n", 0, position) + 1
    stop = text.find("\n", position)
    line, at = text[start : len(text) if stop < 0 else stop], position - start
    key, first, last = _value(line, at)
    if key and _RUNS.search(key):
        return False
    for end in _ENDS.finditer(line, first, last):
        if end.end() <= at:
            first = end.end()
        else:
            last = end.start()
            break
    if _ACCENT.search(line[first:at]) and "`" in line[at:last]:
        return True
    said = _TEXTS.sub(" ", line[first:last])
    signs = 2 * len(_TELLING.findall(said)) + len(_JOINING.findall(said))
    return signs + len(_MARK.findall(said)) + bool(_CAPITAL.match(said)) >= 2


def _value(line: str, at: int) -> tuple[str | None, int, int]:
    """Return the value that has a character of a line: its key, and where it starts and stops."""
    for value in _QUOTED.finditer(line):
        group = value.lastgroup or ""
        if value.start(group) <= at <= value.end(group) and re.search(r"\s", value[group]):
            key = _KEY.search(line[: value.start()])
            return key and key["key"], *value.span(group)
    plain = _PLAIN.match(line)
    return (plain["key"], plain.end(), len(line)) if plain else (None, 0, len(line))
