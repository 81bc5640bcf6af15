"""Requirements such as ``petastorm[torch]==0.11.5``: find them and replace them.

A requirement is found by its whole name: ``hops-petastorm`` and ``petastorm.git`` are others. The
version of another project means nothing for mdstorm, so it goes; an extra stays if mdstorm has its
counterpart; what follows, such as an environment marker, is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from mdstorm_migrate.base.edits import Finding
from mdstorm_migrate.packaging.variables import INTERPOLATION, is_variable
from mdstorm_migrate.petastorm.names import OLD_ROOT

_GAP = r"(?:[ \t]|\\\r?\n)*"
#: With variables of shells and templates: ``petastorm==${VERSION}``, ``petastorm=={{ version }}``.
_NUMBER = rf"(?:[\w.*+!-]|{INTERPOLATION})+"
#: A sign alone that does not touch a number may be a redirection of a shell.
VERSION = (
    rf"(?:(?:===|==|~=|!=|<=|>=){_GAP}(?:{_NUMBER}|\"[\d$]{_NUMBER}\"|'[\d$]{_NUMBER}')"
    rf"|[<>]{_GAP}(?=\d){_NUMBER}|(?<!\s)[<>](?={INTERPOLATION}){_NUMBER})"
)
VERSIONS = rf"{VERSION}(?:{_GAP},{_GAP}{VERSION})*"
#: As Poetry and npm have it: ``petastorm@^0.12``.
_AT = rf"@(?:[~^]?(?=\d|{INTERPOLATION}){_NUMBER}|latest\b|(?=[<>=~!^]){VERSIONS})"
#: By the whole name, and no variable.
_REQUIREMENT = re.compile(
    rf"""
    (?: (?<![\w./@$-]) | (?<=:-) ) (?<!egg=) (?<!\$[{{(]) petastorm (?![\w/-]|\.\w)
    (?: {_GAP} \[ (?P<extras>[^\]\n]*) \] )?
    (?: (?P<url> {_GAP} @ {_GAP} [\w+.-]+: [^\s"',\])}}]* )
      | (?P<version> {_GAP} (?: \( {_GAP} {VERSIONS} {_GAP} \) | {VERSIONS} ) | {_AT} ) )?
    """,
    re.IGNORECASE | re.VERBOSE,
)
#: The version of a copy that somebody has changed: ``0.11.4+acme``.
COPY = "this version of Petastorm is that of a copy with changes of its own"
_LOCAL = re.compile(r"[\w.*}]\+[A-Za-z0-9]")
#: Behind a requirement: a version that is not understood, or a text that is joined to it.
_GOES_ON = re.compile(
    rf"""{_GAP} (?: [=~!<>]= | =[ ]?[\d$"'] )
    | \$[\w(] | \$?\{{ | `(?=[^\s;,)]) | %[\w(] | \\?["'][ \t]*[+~](?!=)""",
    re.VERBOSE,
)
#: Before an extra of a distribution: ``ours[torch,``.
_IN_EXTRAS = re.compile(r"\w\[[\w\s,.-]*\Z")
#: Petastorm's own repository, in a URL.
UBER = re.compile(r"\bgithub\.com[/:]uber/petastorm(?![\w-])", re.IGNORECASE)

#: Extras of Petastorm, and those of mdstorm that bring the same in.
_EXTRAS = {
    "opencv": "images",
    "s3fs": "s3",
    "tf": "tf",
    "tf-gpu": "tf",
    "tf_gpu": "tf",
    "torch": "torch",
}
#: The hosts of PyPI's own files, on which nobody changes a release.
_PYPI = re.compile(
    r"[ \t@]*https?://(?:files\.pythonhosted\.org|pypi\.(?:python\.)?(?:org|io))/packages/"
)


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
        Whether it names where to install from, as ``petastorm @ git+https://…``, but PyPI.
    is_open : bool
        Whether more of it follows, as in ``"petastorm==" + VERSION``, and nobody can say what.
    is_copy : bool
        Whether its version is that of a changed copy, as ``petastorm==0.12.1+acme``.
    is_of_uber : bool
        Whether the URL is of Petastorm's own repository.
    """

    start: int
    stop: int
    extras: tuple[str, ...] = ()
    is_url: bool = False
    is_open: bool = False
    is_copy: bool = False
    is_of_uber: bool = False

    @property
    def is_fork(self) -> bool:
        """Whether it may be another Petastorm than the one that everybody has."""
        return self.is_url or self.is_copy


def mdstorm_extras(extras: tuple[str, ...] | list[str]) -> list[str]:
    """Return mdstorm's extras for some of Petastorm's, each once; unknown ones have none."""
    found = (_EXTRAS.get(extra.strip().lower()) for extra in extras)
    return list(dict.fromkeys(extra for extra in found if extra))


def find_requirements(text: str, start: int = 0, stop: int | None = None) -> Iterator[Requirement]:
    """Yield the requirements of Petastorm between two characters of a text."""
    for match in _REQUIREMENT.finditer(text, start, len(text) if stop is None else stop):
        if _IN_EXTRAS.search(text, text.rfind("\n", 0, match.start()) + 1, match.start()):
            continue  # an extra of another distribution
        if is_variable(text, match.start(), match.start() + len(OLD_ROOT)):
            continue
        extras = tuple(e.strip().lower() for e in (match["extras"] or "").split(",") if e.strip())
        is_url = match["url"] is not None and not is_of_pypi(match["url"])
        is_open = not is_url and _goes_on(text, match)
        is_copy = is_of_copy(match["version"] or "")
        is_of_uber = UBER.search(match["url"] or "") is not None
        yield Requirement(*match.span(), extras, is_url, is_open, is_copy, is_of_uber)


def is_of_copy(version: str) -> bool:
    """Whether a version is a local one, of a copy that somebody has changed."""
    return _LOCAL.search(version) is not None


def is_of_pypi(url: str) -> bool:
    """Whether an address is that of a release on PyPI."""
    return _PYPI.match(url) is not None


def _goes_on(text: str, match: re.Match[str]) -> bool:
    if re.search(r"[$%{]", match["extras"] or ""):
        return True
    is_quoted = text[max(match.start() - 1, 0) : match.start()] in ("'", '"')
    if is_quoted and re.search(r"[\"']", match["version"] or ""):
        return True  # of which the quotation mark before it has a part alone
    return _GOES_ON.match(text, match.end()) is not None


def is_versioned(text: str) -> bool:
    """Whether a requirement has a version or an extra, so that nothing else can be meant."""
    return re.search(r"[\[=<>~!]", text) is not None


def is_requirement(text: str) -> bool:
    """Whether a text, such as a string of a list, begins with a requirement of Petastorm.

    An environment marker or a comment may follow, and nothing else.
    """
    match = _REQUIREMENT.match(text.strip())
    return match is not None and re.match(r"\s*([;#]|$)", text.strip()[match.end() :]) is not None


#: A marker that keeps a requirement away from every Python that mdstorm runs on; the next one in
#: the same line has its own.
_OLD_PYTHON = re.compile(
    r"""[ \t]*[^\s;,"'\]]*[ \t]*;[^\n#;]*python_version[ ]*
    (?: <=?[ ]*\\?["'](?:2\.\d|3(?:\.\d)?)\\?["'] | <[ ]*\\?["']3\.10\\?["']
    | ={2,3}[ ]*\\?["'](?:2\.\d|3\.\d)\\?["'])""",
    re.VERBOSE,
)


def is_for_old_python(rest: str) -> bool:
    """Whether what follows a requirement is a marker that mdstorm's Pythons do not fit."""
    return _OLD_PYTHON.match(rest) is not None


#: The quotation mark of a word, perhaps with an option: ``"--with=petastorm"``.
_OPENING = re.compile(r"""(?P<quote>["'])(?:--?[\w-]+=)?\Z""")


def quoted_word(text: str, start: int, stop: int, new: str) -> str:
    """Return what stands in place of a word of a command: quoted if need be and not quoted yet."""
    before, old = text[:start], text[start:stop]
    opening = _OPENING.search(before)
    if opening is not None and text[stop : stop + 1] == opening["quote"]:
        return new
    if not re.search(r"[<>*!~;@ ]", new) and not ("[" in new and "[" not in old):
        return new
    quote = "'" if before[before.rfind("\n") + 1 :].count('"') % 2 else '"'
    return f"{quote}{new}{quote}"


#: What is said of a requirement that conda installs.
OF_CONDA = "mdstorm is installed by pip: conda has no package of it"
#: A channel before a name, and a version as conda has it behind one.
_CHANNEL = re.compile(r"[\w-]::\Z")
_OF_CONDA = re.compile(r"[ \t]*=(?![=\s])")


def of_conda(found: Requirement, rule: str, remedy: str) -> Finding:
    """Report a requirement that conda installs."""
    return Finding(rule, "manual", found.start, found.stop, OF_CONDA, remedy, topic="install")


def has_channel(text: str, found: Requirement) -> bool:
    """Whether a channel of conda stands before a requirement: ``conda-forge::petastorm``."""
    return _CHANNEL.search(text, max(found.start - 3, 0), found.start) is not None


def is_of_conda(text: str, found: Requirement) -> bool:
    """Whether only conda takes a requirement: it has a channel, or is ``petastorm=0.12``."""
    return has_channel(text, found) or _OF_CONDA.match(text, found.stop) is not None
