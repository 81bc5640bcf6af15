"""Requirements such as ``petastorm[torch]==0.11.5``: find them in a text.

A requirement is found by its whole name: ``petastorm.git`` is another, and ``reco[petastorm]`` an
extra. ``hops-petastorm`` is a copy that is imported by the same name. The version of another
project means nothing for mdstorm, so it goes; an extra stays if mdstorm has its counterpart; what
follows, such as an environment marker, is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from mdstorm_migrate.petastorm.names import OLD_ROOT

#: Variables of shells, templates and workflows, which may hold a version.
_VARIABLE = r"(?:\$?\{\{[^}\n]*\}\}|\$?\{[\w.:-]+\}|\$\([\w.-]+\)|\$\w+)"
_NUMBER = rf"(?:[\w.*+!-]|{_VARIABLE})+"
_GAP = r"(?:[ \t]|\\\r?\n)*"
#: A sign alone that does not touch a number may be a redirection of a shell.
_VERSION = (
    rf"(?:(?:===|==|~=|!=|<=|>=){_GAP}{_NUMBER}|[<>]{_GAP}(?=\d){_NUMBER}"
    rf"|(?<!\s)[<>](?={_VARIABLE}){_NUMBER})"
)
_VERSIONS = rf"{_VERSION}(?:{_GAP},{_GAP}{_VERSION})*"
#: Extras of Petastorm, and those of mdstorm that bring the same in.
_EXTRAS = {
    "opencv": "images",
    "s3fs": "s3",
    "tf": "tf",
    "tf-gpu": "tf",
    "tf_gpu": "tf",
    "torch": "torch",
}


@cache
def _requirement() -> re.Pattern[str]:
    """Return the pattern of a requirement; compiled on first use, as it takes a while."""
    return re.compile(
        rf"""
        (?<![\w./@$-]) (?<!egg=) (?<!\{{\{{)(?<!\{{\{{[ ])(?<!\$[{{(])
        (?P<copy> hops- )? {OLD_ROOT} (?![\w/-]|\.\w)
        (?: {_GAP} \[ (?P<extras>[^\]\n]*) \] )?
        (?: (?P<url> {_GAP} @ {_GAP} [\w+.-]+: [^\s"',\])}}]* )
          | (?P<version> {_GAP} (?: \( {_GAP} {_VERSIONS} {_GAP} \) | {_VERSIONS} )
            | @ [~^]? (?=\d) {_NUMBER} ) )?
        """,
        re.IGNORECASE | re.VERBOSE,
    )


#: What stands before an extra of another distribution, of a project's folder or of its wheel.
_EXTRA_OF = re.compile(r"[\w./*)}]\[[\w, -]*\Z")
#: The version of a copy that somebody has changed, as ``0.11.4+acme``.
_LOCAL_VERSION = re.compile(r"[\w.*}]\+[A-Za-z0-9]")
#: Behind a requirement: a version that is not understood, or a text that is joined to it.
_GOES_ON = re.compile(
    rf"""{_GAP}(?:[=~!<>]=|=[ ]?[\d$"'])|\$[\w(]|\$?\{{|%[\w(]|["'][ \t]*[+%](?!=)""", re.VERBOSE
)
#: A repository or an archive of Petastorm: ``git+https://github.com/uber/petastorm.git@v0.12``.
_ADDRESS = re.compile(
    r"""(?<![\w-])(?:[\w+.-]+://|git@|\.{0,2}/)[^\s"',;#]*?(?P<name>petastorm)(?!\w|-[A-Za-z])
    (?:\.git)?(?:@[^\s"',;#]+|-\d[^\s"',;]*\.(?:whl|zip|tar\.gz))?(?:\#[^\s"',;]*)?(?=["'\s,;]|\Z)""",
    re.IGNORECASE | re.VERBOSE,
)
#: A marker that keeps a requirement away from every Python that mdstorm runs on.
_OLD_PYTHON = re.compile(
    r"""[ \t]*[^\s;,"'\]]*[ \t]*;[^\n\#;]*python_version[ ]*
    (?: <=?[ ]*\\?["'](?:2\.\d|3(?:\.\d)?)\\?["'] | <[ ]*\\?["']3\.10\\?["']
      | ={2,3}[ ]*\\?["'](?:2\.\d|3\.\d)\\?["'])""",
    re.VERBOSE,
)
#: A channel of conda before a name, and a version as conda has it behind one.
_CHANNEL = re.compile(r"[\w-]::\Z")
_OF_CONDA = re.compile(r"[ \t]*=(?![=\s])")


@dataclass(frozen=True)
class Requirement:
    """A requirement of Petastorm in a text.

    Attributes
    ----------
    start, stop : int
        Its span in characters: name, extras, and version or URL.
    extras : tuple of str
        Petastorm's extras, in lower case.
    is_copy : bool
        Whether it says where to install from, as ``petastorm @ git+https://…``, or has the name or
        the version of a changed copy, as ``hops-petastorm`` and ``petastorm==0.12.1+acme`` have.
    is_open : bool
        Whether more of it follows, as in ``"petastorm==" + VERSION``, and nobody can say what.
    """

    start: int
    stop: int
    extras: tuple[str, ...] = ()
    is_copy: bool = False
    is_open: bool = False


def find_requirements(text: str, start: int = 0, stop: int | None = None) -> Iterator[Requirement]:
    """Yield the requirements of Petastorm between two characters of a text."""
    for match in _requirement().finditer(text, start, len(text) if stop is None else stop):
        if _EXTRA_OF.search(text, max(match.start() - 80, 0), match.start()):
            continue
        extras = tuple(e.strip().lower() for e in (match["extras"] or "").split(",") if e.strip())
        is_copy = bool(match["copy"] or match["url"]) or is_local_version(match["version"] or "")
        is_open = match["url"] is None and _GOES_ON.match(text, match.end()) is not None
        yield Requirement(*match.span(), extras, is_copy, is_open)


def find_addresses(text: str, start: int = 0, stop: int | None = None) -> Iterator[Requirement]:
    """Yield the repositories, folders and archives of Petastorm that are to be installed."""
    for match in _ADDRESS.finditer(text, start, len(text) if stop is None else stop):
        yield Requirement(*match.span(), is_copy=True)


def mdstorm_extras(extras: Iterable[str]) -> list[str]:
    """Return mdstorm's extras for some of Petastorm's, each once; unknown ones have none."""
    found = (_EXTRAS.get(extra.strip().lower()) for extra in extras)
    return list(dict.fromkeys(extra for extra in found if extra))


def is_local_version(version: str) -> bool:
    """Whether a version is that of a copy which somebody has changed."""
    return _LOCAL_VERSION.search(version) is not None


def is_requirement(text: str) -> bool:
    """Whether a text, such as a string of a list, is a requirement of Petastorm.

    An environment marker or a comment may follow, and nothing else.
    """
    match = _requirement().match(text.strip())
    return match is not None and re.match(r"\s*([;#]|$)", text.strip()[match.end() :]) is not None


def is_versioned(text: str) -> bool:
    """Whether a requirement has a version or an extra, so that nothing else can be meant."""
    return re.search(r"[\[=<>~!]", text) is not None


def is_for_old_python(rest: str) -> bool:
    """Whether what follows a requirement is a marker that mdstorm's Pythons do not fit."""
    return _OLD_PYTHON.match(rest) is not None


def is_of_conda(text: str, found: Requirement) -> bool:
    """Whether only conda takes a requirement: it has a channel, or is ``petastorm=0.12``."""
    has_channel = _CHANNEL.search(text, max(found.start - 3, 0), found.start) is not None
    return has_channel or _OF_CONDA.match(text, found.stop) is not None


def quoted_word(text: str, start: int, stop: int, new: str) -> str:
    """Return what stands in place of a word of a command: quoted if need be and not quoted yet."""
    before, old = text[:start], text[start:stop]
    opening = re.search(r"""(?P<quote>["'])(?:--?[\w-]+=)?\Z""", before[-80:])
    if opening is not None and text[stop : stop + 1] == opening["quote"]:
        return new
    if not re.search(r"[<>*!~;@ ]", new) and not ("[" in new and "[" not in old):
        return new
    quote = "'" if before[before.rfind("\n") + 1 :].count('"') % 2 else '"'
    return f"{quote}{new}{quote}"
