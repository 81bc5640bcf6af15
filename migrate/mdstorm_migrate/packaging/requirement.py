"""Find requirements such as ``petastorm[torch]==0.11.5`` in a string.

Only the full distribution name counts: ``petastorm.git`` is something else, and ``petastorm`` in
``reco[petastorm]`` is an extra. ``hops-petastorm`` is a copy that is imported by the same name.
Petastorm's version means nothing for mdstorm, so it is removed; an extra stays if mdstorm has a
counterpart; the text after it, such as an environment marker, is kept.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from mdstorm_migrate.petastorm.names import OLD_ROOT

#: Variables in shells, templates and workflows, which may contain a version.
_VARIABLE = r"(?:\$?\{\{[^}\n]*\}\}|\$?\{[\w.:-]+\}|\$\([\w.-]+\)|\$\w+)"
_NUMBER = rf"(?:[\w.*+!-]|{_VARIABLE})+"
_GAP = r"(?:[ \t]|\\\r?\n)*"
#: ``<`` and ``>`` count only before a number, or before a variable if no space surrounds them;
#: otherwise, they may be shell redirections.
_VERSION = (
    rf"(?:(?:===|==|~=|!=|<=|>=){_GAP}{_NUMBER}|[<>]{_GAP}(?=\d){_NUMBER}"
    rf"|(?<!\s)[<>](?={_VARIABLE}){_NUMBER})"
)
_VERSIONS = rf"{_VERSION}(?:{_GAP},{_GAP}{_VERSION})*"
#: Petastorm's extras, and mdstorm's extras that install the same packages.
_EXTRAS = {
    "opencv": "images",
    "s3fs": "s3",
    "tf": "tf",
    "tf-gpu": "tf",
    "tf_gpu": "tf",
    "torch": "torch",
}


@cache
def _requirement(name: str) -> re.Pattern[str]:
    """Return the pattern of requirements for a distribution, compiled on first use."""
    return re.compile(
        rf"""
        (?<![\w./@$-]) (?<!egg=) (?<!\{{\{{)(?<!\{{\{{[ ])(?<!\$[{{(])
        (?P<copy> hops- )? {name} (?![\w/-]|\.\w)
        (?: {_GAP} \[ (?P<extras>[^\]\n]*) \] )?
        (?: (?P<url> {_GAP} @ {_GAP} [\w+.-]+: [^\s"',\])}}]* )
          | (?P<version> {_GAP} (?: \( {_GAP} {_VERSIONS} {_GAP} \) | {_VERSIONS} )
            | @ [~^]? (?=\d) {_NUMBER} ) )?
        """,
        re.IGNORECASE | re.VERBOSE,
    )


#: The text before ``petastorm`` if it is an extra, as in ``acme[petastorm]`` or ``.[petastorm]``.
_EXTRA_OF = re.compile(r"[\w./*)}]\[[\w, -]*\Z")
#: The version of a modified copy, such as ``0.11.4+acme``.
_LOCAL_VERSION = re.compile(r"[\w.*}]\+[A-Za-z0-9]")
#: Text that continues a requirement: a version that cannot be parsed, or the start of concatenated
#: or interpolated text.
_CONTINUATION = re.compile(rf"""{_GAP}(?:[=~!<>]=|=[ ]?[\d$"'])|\$[\w(]|\$?\{{""", re.VERBOSE)
#: A repository or an archive of Petastorm: ``git+https://github.com/uber/petastorm.git@v0.12``.
_ADDRESS = re.compile(
    r"""(?<![\w-])(?:[\w+.-]+://|git@|\.{0,2}/)[^\s"',;#]*?(?P<name>petastorm)(?!\w|-[A-Za-z])
    (?:\.git)?(?:@[^\s"',;#]+|-\d[^\s"',;]*\.(?:whl|zip|tar\.gz))?(?:\#[^\s"',;]*)?(?=["'\s,;]|\Z)""",
    re.IGNORECASE | re.VERBOSE,
)
#: A marker that excludes every Python version that mdstorm supports.
_OLD_PYTHON = re.compile(
    r"""[ \t]*[^\s;,"'\]]*[ \t]*;[^\n\#;]*python_version[ ]*
    (?: <=?[ ]*\\?["'](?:2\.\d|3(?:\.\d)?)\\?["'] | <[ ]*\\?["']3\.10\\?["']
      | ={2,3}[ ]*\\?["'](?:2\.\d|3\.\d)\\?["'])""",
    re.VERBOSE,
)
#: A conda channel before a name, and conda's notation for a version after it.
_CHANNEL = re.compile(r"[\w-]::\Z")
_CONDA_VERSION = re.compile(r"[ \t]*=(?![=\s])")
#: The text around the requirement in a string that is one.
_BEFORE = re.compile(r"""\s*["']?(?:[\w/-]+::)?""")
_NAME = re.compile(rf"{_BEFORE.pattern}(?P<name>[A-Za-z][\w.-]*)")
_AFTER = re.compile(r"""["']?\s*(?:[;#]|\Z)""")


@dataclass(frozen=True)
class Requirement:
    """A requirement for Petastorm in a string.

    Attributes
    ----------
    start, stop : int
        The span in characters: name, extras, and version or URL.
    extras : tuple of str
        Petastorm's extras, in lower case.
    is_copy : bool
        Whether it installs from a location, as ``petastorm @ git+https://…``, or has the name or
        version of a modified copy, as ``hops-petastorm`` and ``petastorm==0.12.1+acme``.
    is_open : bool
        Whether more text is appended that is unknown here, as in ``"petastorm==" + VERSION``.
    is_conda : bool
        Whether only conda accepts it: one with a channel, or like ``petastorm=0.12``.
    is_old : bool
        Whether its marker excludes every Python version that mdstorm supports.
    """

    start: int
    stop: int
    extras: tuple[str, ...] = ()
    is_copy: bool = False
    is_open: bool = False
    is_conda: bool = False
    is_old: bool = False


def find_requirements(
    text: str, start: int = 0, stop: int | None = None, name: str = OLD_ROOT
) -> Iterator[Requirement]:
    """Yield the requirements for a distribution, by default Petastorm, in a span of a string.

    The name is a pattern.
    """
    for match in _requirement(name).finditer(text, start, len(text) if stop is None else stop):
        first, last = match.span()
        if _EXTRA_OF.search(text, max(first - 80, 0), first):
            continue
        extras = tuple(e.strip().lower() for e in (match["extras"] or "").split(",") if e.strip())
        is_copy = bool(match["copy"] or match["url"]) or is_local_version(match["version"] or "")
        is_open = match["url"] is None and _CONTINUATION.match(text, last) is not None
        has_channel = _CHANNEL.search(text, max(first - 3, 0), first) is not None
        is_conda = has_channel or _CONDA_VERSION.match(text, last) is not None
        is_old = is_for_old_python(text, last)
        yield Requirement(first, last, extras, is_copy, is_open, is_conda, is_old)


def find_addresses(
    text: str, start: int = 0, stop: int | None = None, name: str = OLD_ROOT
) -> Iterator[Requirement]:
    """Yield the addresses from which Petastorm is installed; other distributions have none."""
    if name != OLD_ROOT:
        return
    for match in _ADDRESS.finditer(text, start, len(text) if stop is None else stop):
        yield Requirement(*match.span(), is_copy=True)


def is_for_old_python(text: str, end: int) -> bool:
    """Whether a marker after a requirement excludes every Python version that mdstorm supports."""
    return _OLD_PYTHON.match(text, end) is not None


def mdstorm_extras(extras: Iterable[str]) -> list[str]:
    """Return mdstorm's extras for the given Petastorm extras, ignoring unknown ones."""
    found = (_EXTRAS.get(extra.strip().lower()) for extra in extras)
    return list(dict.fromkeys(extra for extra in found if extra))


def is_local_version(version: str) -> bool:
    """Whether a version indicates a modified copy, such as ``0.11.4+acme``."""
    return _LOCAL_VERSION.search(version) is not None


def requirements_at(
    text: str, start: int, stop: int, name: str = OLD_ROOT
) -> Iterator[Requirement]:
    """Yield the requirement for a distribution in a string that is one, such as an item of a list.

    A channel may precede it; only a marker, a comment, conda's version or unknown text may follow.
    """
    at = start
    for found in find_requirements(text, start, stop, name):
        is_whole = found.is_open or found.is_conda or _AFTER.match(text, found.stop, stop)
        if is_whole and _BEFORE.fullmatch(text, start, found.start):
            yield found
            at = stop if found.is_copy else at  # its address is a part of it
    yield from find_addresses(text, at, stop, name)


def name_at(text: str, start: int, stop: int) -> str | None:
    """Return the name of the distribution that a string requires, if it is a requirement."""
    match = _NAME.match(text, start, stop)
    return None if match is None else match["name"]


def is_versioned(text: str) -> bool:
    """Whether a text has a version, an extra or a channel, so that it can only be a requirement."""
    return re.search(r"[\[=<>~!@]|::", text) is not None


_MARK = re.compile(r"""\\*["']""")


def quoted_word(text: str, start: int, stop: int, new: str) -> str:
    """Return the replacement for a word in a command, quoted if it needs quotes and has none.

    Quotes that may be open around the word are not used again. If no other ones are left, none are,
    because shells rarely need them.
    """
    opening = re.search(
        r"""(?P<quote>\\*["'])(?:--?[\w-]+=)?\Z""", text[max(start - 80, 0) : start]
    )
    if opening is not None and re.compile(rf"[ \t]*;|{re.escape(opening['quote'])}").match(
        text, stop
    ):
        return new
    if not re.search(r"[<>*!~;@ ]", new) and not ("[" in new and "[" not in text[start:stop]):
        return new
    end = text.find("\n", stop)
    spans = (text.rfind("\n", 0, start) + 1, start), (stop, len(text) if end < 0 else end)
    counts = (Counter(_MARK.findall(text, *span)) for span in spans)
    around = {mark[-1] for one in counts for mark, number in one.items() if number % 2}
    quote = next((one for one in "\"'" if one not in around), "")
    return f"{quote}{new}{quote}"
