"""The extras of Petastorm that one document requires, and those of mdstorm that stand for them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.packaging.pyproject import dependency_keys
from mdstorm_migrate.packaging.requirement import Requirement, find_requirements, mdstorm_extras
from mdstorm_migrate.packaging.toml_text import TomlKey, toml_keys, value_of
from mdstorm_migrate.petastorm.names import OLD_ROOT

#: What an extra of Petastorm's brought in that mdstorm's does not, and the modules of each.
BROUGHT_BY_EXTRAS = {
    "opencv": {"opencv-python": ("cv2",)},
    "torch": {"torchvision": ("torchvision",)},
}
#: The program that starts Spark.
_WITH_SPARK = re.compile(
    r"\b(?:petastorm|mdstorm)\.tools\.copy_dataset\b|\bpetastorm-copy-dataset\.py\b"
)
_EXTRAS = re.compile(r"""\bextras[ \t]*=[ \t]*\[(?P<extras>[^\]]*)\]""")


def own_extras(document: Document) -> set[str]:
    """Return the extras of mdstorm that a document requires by those of Petastorm, or runs."""
    found = set(mdstorm_extras(tuple(petastorm_extras(document))))
    return found | {
        extra for one in find_requirements(document.text) for extra in run_by(document, one)
    }


def run_by(document: Document, found: Requirement) -> list[str]:
    """Return the extras that a program needs which a document runs after it has installed them."""
    program = _WITH_SPARK.search(document.text, found.stop)
    if program is None or document.kind not in ("cluster", "docker", "shell"):
        return []
    others = find_requirements(document.text, found.stop, program.start())
    return [] if any(others) else ["spark"]


def petastorm_extras(document: Document) -> set[str]:
    """Return the extras of Petastorm that a document requires.

    They stand behind the name, as in ``petastorm[torch]``, or in the table of a dependency, as
    Poetry and Pipenv have it.
    """
    found = {extra for one in find_requirements(document.text) for extra in one.extras}
    for key in petastorm_keys(document):
        start, stop = value_of(document.text, key)
        for names in extras_in(document.text[start:stop]):
            found.update(extra_names(names))
    return found


def lost_with(beside: Iterable[str], extras: Iterable[str]) -> list[str]:
    """Return those of some distributions that a requirement with these extras brought in.

    What an extra brought in stands where that extra stood, and nowhere else.
    """
    own = {name for extra in extras for name in BROUGHT_BY_EXTRAS.get(extra.lower(), ())}
    others = {name for names in BROUGHT_BY_EXTRAS.values() for name in names} - own
    return [name for name in beside if name not in others]


def petastorm_keys(document: Document) -> list[TomlKey]:
    """Return the keys and tables that require Petastorm by their name."""
    if document.kind not in ("pyproject", "pipfile"):
        return []
    keys = dependency_keys if document.kind == "pyproject" else toml_keys
    return [key for key in keys(document.text) if key.name.lower() == OLD_ROOT]


def extras_in(value: str) -> Iterator[re.Match[str]]:
    """Yield the lists of extras in the value of a dependency, as the group ``extras``."""
    return _EXTRAS.finditer(value)


def extra_names(extras: re.Match[str]) -> list[str]:
    """Return the names in such a list."""
    return re.findall(r"""["']([^"']+)["']""", extras["extras"])
