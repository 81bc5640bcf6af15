"""How configuration in JSON and YAML names classes and functions of Petastorm."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdstorm_migrate.petastorm.names import CONF_KEY, OLD_ROOT, missing

#: A value that is a dotted path, with the key before it, or an item of a list. The last name may
#: stand behind a colon, as in entry points.
VALUE = re.compile(
    rf"""(?: (?<![\w().-])(?P<key>[\w().-]+)["']?[ \t]*[:=][ \t]*
           | (?<=[\[,])\s*(?=["']) | (?m:^)[ \t]*-[ \t]+ )
    (?P<quote>["']?)
    (?P<path>{OLD_ROOT}(?:\.[^\W\d]\w*)*(?:[.:][^\W\d]\w*))(?P=quote)
    (?=[ \t]*(?:[,}}\]\r\n]|\#|\Z))""",
    re.VERBOSE,
)
#: Where text sets or reads Spark's key of the parent cache directory: in SQL and in options of
#: ``spark-submit``.
_KEY = rf"(?P<key>{re.escape(CONF_KEY)})(?![\w.])"
SET_KEY = re.compile(
    rf"""(?:\b(?i:SET)\s+`?(?=[\w.]+`?\s*(?:[=;"']|\Z))|(?:(?<!\S)|(?<=["']))(?=[\w.]+=)
    |--conf[=\ ]+["']?){_KEY}""",
    re.VERBOSE,
)
#: The same in cells of other languages than Python: ``spark.conf.set("…", url)`` of Scala.
KEY_IN_CELLS = re.compile(rf"""(?:\b(?i:SET)\s+`?|--conf[= ]+["']?|["']){_KEY}""")
#: An entry point.
ENTRY_POINT = re.compile(
    r"(?:(?<=[\"'=\s])|^)(?P<module>petastorm(?:\.\w+)*)[ \t]*:[ \t]*(?P<name>\w+(?:\.\w+)*)"
)
#: One with its name in the same string, as in ``setup.py``.
NAMED_ENTRY_POINT = re.compile(rf"[\w.-]+[ \t]*=[ \t]*{ENTRY_POINT.pattern}")
#: A value that a command gives to a key of them: ``data._target_=petastorm.pytorch.DataLoader``.
OVERRIDE = re.compile(
    rf"""(?<![\w.])[+~]*(?P<key>[\w.@/-]*\b(?:_target_|class_path))[= ](?P<quote>["']?)
    (?P<path>{OLD_ROOT}(?:\.[^\W\d]\w*)+)(?!\.?\w)""",
    re.VERBOSE,
)
#: The value of an option or a variable of a command: ``--reader petastorm.make_reader``.
ARGUMENT = re.compile(
    rf"""(?: (?<![\w-])--?[A-Za-z][\w-]*(?:[ \t=]|["'][ \t]*,[ \t]*["']) | (?<![\w.-])[\w.-]+= )
    ["']?(?P<path>{OLD_ROOT}(?:\.[^\W\d]\w*)+)(?![\w:/(-]|\.\w)""",
    re.VERBOSE,
)
#: Keys whose values are imported and called: by Hydra, Lightning's command line and ``logging``.
CALLED = frozenset({"_target_", "class_path", "()"})
#: Loggers of ``logging.config.dictConfig`` in YAML and JSON, up to the names below it.
_LOGGERS = re.compile(
    r"""^(?P<indent>[ \t]*)["']?loggers["']?[ \t]*:[ \t]*\{?[ \t]*\r?\n
    (?P<body>(?:(?P=indent)[ \t]+\S[^\n]*(?:\n|\Z)|[ \t]*\r?\n)+)""",
    re.MULTILINE | re.VERBOSE,
)
#: The same in braces.
_FLOW_LOGGERS = re.compile(r"""(?<![\w.-])["']?loggers["']?[ \t]*:[ \t]*(?=\{\s*["'\w])""")
_FLOW_PART = re.compile(
    rf"""(?P<open>\{{) | (?P<close>\}})
    | (?<=[{{,\s])["']?(?P<name>{OLD_ROOT}(?:\.\w+)*)["']?[ \t]*: | \S""",
    re.VERBOSE,
)
_LOGGER = re.compile(
    rf"""^(?P<indent>[ \t]+)["']?(?P<name>{OLD_ROOT}(?:\.\w+)*)["']?[ \t]*:""", re.MULTILINE
)


def is_image(path: str) -> bool:
    """Whether what looks like an entry point is an image of containers: ``petastorm:latest``."""
    owner, colon, name = path.partition(":")
    return bool(colon) and owner == OLD_ROOT and missing(f"{owner}.{name}") is not None


def is_called(key: str | None) -> bool:
    """Whether the value of a key is imported and called; the key may be a path to one."""
    return key is not None and key.rpartition(".")[2] in CALLED


def loggers(text: str) -> list[tuple[int, int]]:
    """Return the spans of Petastorm's loggers in configuration of ``logging``.

    Those of mdstorm beside them say what it needs.
    """
    return sorted({*_in_blocks(text), *_in_flow(text)})


def _in_blocks(text: str) -> Iterator[tuple[int, int]]:
    for block in _LOGGERS.finditer(text):
        body = block["body"]
        if re.search(r"\bmdstorm\b", body):
            continue
        depth = len(body.lstrip("\r\n")) - len(body.lstrip())
        for name in _LOGGER.finditer(text, *block.span("body")):
            if len(name["indent"]) == depth:
                yield name.span("name")


def _in_flow(text: str) -> Iterator[tuple[int, int]]:
    for block in _FLOW_LOGGERS.finditer(text):
        found = list(_in_braces(text, block.end()))
        stop = found[-1].end() if found else block.end()
        if re.search(r"\bmdstorm\b", text[block.end() : stop]) is None:
            yield from (name.span("name") for name in found if name["name"])


def _in_braces(text: str, start: int) -> Iterator[re.Match[str]]:
    """Yield the names at the first level of braces, and the brace that ends them."""
    depth = 0
    for part in _FLOW_PART.finditer(text, start):
        depth += bool(part["open"]) - bool(part["close"])
        if depth == 0:
            yield part
            return
        if part["name"] and depth == 1:
            yield part
