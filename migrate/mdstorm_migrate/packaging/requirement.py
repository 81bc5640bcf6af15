"""Requirements such as ``petastorm[torch]==0.11.5``, wherever they stand, and what they become.

A requirement is found by its whole name: ``hops-petastorm`` and ``petastorm.git`` are others. The
version of another project means nothing for mdstorm, so it goes; an extra stays if mdstorm has its
counterpart; what follows, such as an environment marker, is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from mdstorm_migrate.base.edits import Class, Edit, Finding

__all__ = [
    "Requirement",
    "edit_requirement",
    "find_requirements",
    "is_requirement",
    "mdstorm_extras",
    "other_origins",
]

_GAP = r"(?:[ \t]|\\\r?\n)*"
#: With variables of shells and templates: ``petastorm==${VERSION}``, ``petastorm=={{ version }}``.
_NUMBER = r"(?:[\w.*+!-]|\$\{[^}\n]*\}|\$\w+|\{\{[^}\n]*\}\})+"
_VERSION = rf"(?:===|==|~=|!=|<=|>=|<|>){_GAP}{_NUMBER}"
_VERSIONS = rf"{_VERSION}(?:{_GAP},{_GAP}{_VERSION})*"
_REQUIREMENT = re.compile(
    rf"""
    (?<![\w./@-]) (?<!egg=) petastorm (?![\w/-]|\.\w)  # the whole name
    (?: {_GAP} \[ (?P<extras>[^\]\n]*) \] )?
    (?P<version> {_GAP} (?: \( {_GAP} {_VERSIONS} {_GAP} \) | {_VERSIONS} ) )?
    (?P<url> {_GAP} @ {_GAP} [\w+.-]+: \S* )?
    """,
    re.IGNORECASE | re.VERBOSE,
)
_REPOSITORY = re.compile(
    r"""(?<!@[ ]) (?<![\w+])
    (?: (?:git\+)? (?:https?|ssh|git):// \S* /petastorm (?:\.git)? (?![\w-]) \S*
      | (?<![^\s"'=]) [^\s"'=]* /petastorm-\d[^\s"',]* \.(?:whl|zip|tar\.gz)
      | (?<=-e[ ]) \S* /petastorm/? (?=\s|$) )""",
    re.IGNORECASE | re.VERBOSE,
)
_OTHERS = re.compile(r"(?<![\w./-])(hops-petastorm|py-petastorm)(?![\w-])", re.IGNORECASE)

#: Extras of Petastorm, and those of mdstorm that bring the same in; None for what needs nothing.
_EXTRAS = {"torch": "torch", "tf": "tf", "tf_gpu": "tf", "tf-gpu": "tf", "opencv": "images"}


@dataclass(frozen=True)
class Requirement:
    """A requirement of Petastorm in a text.

    Attributes
    ----------
    start, stop : int
        Its span in characters: name, extras, and version or URL.
    extras : tuple of str
        Petastorm's extras, in lower case.
    is_url : bool
        Whether it names where to install from, as ``petastorm @ git+https://…``.
    """

    start: int
    stop: int
    extras: tuple[str, ...] = ()
    is_url: bool = False

    @property
    def replacement(self) -> str:
        """What stands in its place."""
        extras = ",".join(mdstorm_extras(self.extras))
        return f"mdstorm[{extras}]" if extras else "mdstorm"


def mdstorm_extras(extras: tuple[str, ...] | list[str]) -> list[str]:
    """Return mdstorm's extras for some of Petastorm's, each once; unknown ones have none."""
    found = (_EXTRAS.get(extra.strip().lower()) for extra in extras)
    return list(dict.fromkeys(extra for extra in found if extra))


def find_requirements(text: str, start: int = 0, stop: int | None = None) -> Iterator[Requirement]:
    """Yield the requirements of Petastorm between two characters of a text."""
    for match in _REQUIREMENT.finditer(text, start, len(text) if stop is None else stop):
        extras = tuple(e.strip().lower() for e in (match["extras"] or "").split(",") if e.strip())
        yield Requirement(*match.span(), extras, match["url"] is not None)


def is_requirement(text: str) -> bool:
    """Whether a text, such as a string of a list, begins with a requirement of Petastorm.

    An environment marker or a comment may follow, and nothing else.
    """
    match = _REQUIREMENT.match(text.strip())
    return match is not None and re.match(r"\s*([;#]|$)", text.strip()[match.end() :]) is not None


def edit_requirement(found: Requirement, rule: str, cls: Class = "exact") -> Edit | Finding:
    """Return the edit of a requirement, or the finding where a person has to decide."""
    if found.is_url:
        return Finding(
            rule,
            "manual",
            found.start,
            found.stop,
            "Petastorm is installed from a URL, perhaps a fork with changes of its own",
            "require mdstorm, after a look at what the fork changes",
        )
    return Edit(
        rule,
        cls,
        found.start,
        found.stop,
        found.replacement,
        "require mdstorm; versions of Petastorm say nothing about it",
    )


def other_origins(text: str, rule: str) -> Iterator[Finding]:
    """Report repositories of Petastorm, and distributions of another name that provide it."""
    for match in _REPOSITORY.finditer(text):
        yield Finding(
            rule,
            "manual",
            match.start(),
            match.end(),
            "Petastorm comes from a repository or a file, perhaps with changes of its own",
            "install mdstorm instead, after a look at what was changed",
        )
    for match in _OTHERS.finditer(text):
        yield Finding(
            rule,
            "manual",
            match.start(),
            match.end(),
            f"{match[0]} provides the package `petastorm` too, and hides imports that were missed",
            "remove it once the code is migrated",
        )
