"""The distributions that documents require, by name, and those that images bring along."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.packaging.bounds import normalised
from mdstorm_migrate.packaging.commands import install_commands
from mdstorm_migrate.packaging.flow_lists import flow_items
from mdstorm_migrate.packaging.pyproject import dependency_keys, requirement_strings
from mdstorm_migrate.packaging.toml_text import toml_keys

_WORD = re.compile(r"(?<![\w./@=-])[A-Za-z][\w.-]*[\w]|(?<![\w./@=-])[A-Za-z]")
#: Extras behind a name, which are no distributions.
_EXTRAS = re.compile(r"(?<=\w)\[[^\]\n]*\]")
_LINE = re.compile(r"^[ \t]*(?:-[ \t]+[\"']?)?(?:[\w-]+::)?(?P<name>[A-Za-z][\w.-]*)", re.MULTILINE)
_IMAGE = re.compile(r"^[ \t]*FROM[ \t]+(?:--\S+[ \t]+)?(\S+)", re.MULTILINE | re.IGNORECASE)
#: What images bring along, by a part of their names.
_IMAGES = {
    "databricks": ("pyspark", "pandas"),
    "pyspark": ("pyspark", "pandas"),
    "pytorch": ("torch",),
    "spark": ("pyspark",),
    "tensorflow": ("tensorflow",),
    "torch": ("torch",),
}


def required_names(documents: Sequence[Document]) -> set[str]:
    """Return the names of the distributions that documents require."""
    found: set[str] = set()
    for document in documents:
        found.update(map(normalised, _required(document)))
    return found


def _required(document: Document) -> Iterator[str]:
    text = document.text
    match document.kind:
        case "requirements" | "conda":
            yield from (line["name"] for line in _LINE.finditer(text))
            if document.kind == "conda":
                for entry in flow_items(text):
                    yield from _WORD.findall(text[entry.start : entry.stop])[:1]
        case "pyproject" | "pipfile":
            for string in requirement_strings(text):
                yield from _WORD.findall(string.value)[:1]
            yield from (key.name for key in dependency_keys(text))
            if document.kind == "pipfile":
                yield from (key.name for key in toml_keys(text))
        case "setup_cfg":
            yield from (line["name"] for line in _LINE.finditer(text))
        case "python":
            for quoted in re.finditer(r"""["']([A-Za-z][\w.-]*)[^"'\n]*["']""", text):
                yield quoted[1]
        case _:
            for _, start, stop in install_commands(text):
                yield from _WORD.findall(_EXTRAS.sub("", text[start:stop]))
            if document.kind == "cluster":
                for item in re.finditer(r"""["'\s]([A-Za-z][\w.-]*)[=<>~\[]=?[\w.\[]""", text):
                    yield item[1]


def provided_by(documents: Sequence[Document]) -> set[str]:
    """Return what the images bring along that Dockerfiles start from."""
    found: set[str] = set()
    for document in documents:
        if document.kind == "docker":
            for image in _IMAGE.findall(document.text):
                for part, names in _IMAGES.items():
                    if part in image.lower():
                        found.update(names)
    return found
