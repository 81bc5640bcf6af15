"""What a project needs of the requirements in one of its files, as the run found out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_WANTED = re.compile(
    r"""\s* mdstorm \s* (?: \[ (?P<extras>[\w\s,.-]*) \] )? \s*
    (?P<version> (?: (?:===|==|~=|!=|<=|>=|<|>) \s* [\w.*+!-]+ (?: \s*,\s* )? )* | @ \s* \S+ )
    \s*""",
    re.VERBOSE | re.IGNORECASE,
)


class RequirementError(ValueError):
    """A requirement that is none of mdstorm."""


@dataclass(frozen=True)
class Wanted:
    """How mdstorm is to be required, as ``--requirement`` has it.

    Attributes
    ----------
    extras : tuple of str
    version : str
        Such as ``==0.2.*``, or `` @ https://…``; empty for any version.
    """

    extras: tuple[str, ...] = ()
    version: str = ""

    def __str__(self) -> str:
        """Return the requirement."""
        extras = f"[{','.join(self.extras)}]" if self.extras else ""
        return f"mdstorm{extras}{self.version}"

    @classmethod
    def parse(cls, text: str) -> Wanted:
        """Return what a requirement such as ``mdstorm[torch]==0.2.*`` says.

        Raises
        ------
        RequirementError
            If it is not a requirement of mdstorm.
        """
        match = _WANTED.fullmatch(text)
        if match is None:
            raise RequirementError(
                f"{text!r} does not require mdstorm; write it as `mdstorm[torch]==0.2.*`"
            )
        extras = tuple(one.strip() for one in (match["extras"] or "").split(",") if one.strip())
        version = re.sub(r"\s+", "", match["version"]).rstrip(",")
        return cls(extras, f" @ {version[1:]}" if version.startswith("@") else version)


#: What is said behind an importer that uses Petastorm only where mdstorm is not installed.
FALLBACK = " (as a fallback alone)"
#: Endings of files that name what others import.
_DATA = (".cfg", ".conf", ".gin", ".ini", ".json", ".md", ".rst", ".toml", ".yaml", ".yml")
#: Any version, without extras.
ANY = Wanted()


@dataclass(frozen=True)
class Needs:
    """What the code around a file needs of its requirements. The default is of a file alone.

    Attributes
    ----------
    wanted : Wanted
    index : str or None
        Where pip also finds mdstorm.
    extras : tuple of str
        Extras that the code needs, and that no other requirement brings in.
    uses : tuple of str
        Extras that the code needs, wherever they come from.
    beside : tuple of str
        Distributions that came in through Petastorm, and that the code imports itself.
    importers : tuple of str
        Files that go on importing Petastorm, which therefore stays.
    upper_bounds : tuple of str
        What Petastorm needs where it stays: requirements of older libraries.
    moved : bool
        Whether code imports mdstorm, as far as is known.
    held : str or None
        A pin of another file, installed together with this one, that mdstorm conflicts with.
    together : bool or None
        Whether the pins of this file are installed together with mdstorm; None: if the file
        requires it itself.
    runs : frozenset of Path
        Code that the file runs on a Python that is too old, as far as it names it.
    is_constraint : bool
        Whether the file constrains versions, and installs nothing.
    """

    wanted: Wanted = ANY
    index: str | None = None
    extras: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    importers: tuple[str, ...] = ()
    upper_bounds: tuple[str, ...] = ()
    moved: bool = True
    held: str | None = None
    together: bool | None = None
    runs: frozenset[Path] = frozenset()
    is_constraint: bool = False

    @property
    def falls_back(self) -> bool:
        """Whether all importers use Petastorm only where mdstorm is not installed."""
        return all(one.endswith(FALLBACK) for one in self.importers)

    @property
    def are_beside(self) -> bool:
        """Whether mdstorm and Petastorm are installed together."""
        return bool(self.importers) and self.moved and not self.falls_back

    @property
    def bounds(self) -> tuple[str, ...]:
        """What to require for Petastorm beside mdstorm, of what `upper_bounds` names."""
        return self.upper_bounds if self.are_beside and not self.is_constraint else ()

    @property
    def why_petastorm_stays(self) -> str:
        """What is said of the requirement where there are importers."""
        more = len(self.importers) - 1
        others = f" and {more} more still {self._verb}" if more else f" still {self._verb}s"
        said = f"Petastorm stays: {self.importers[0]}{others} it"
        if self.falls_back:
            said += "; where mdstorm is installed, take that out, then this"
        return said

    @property
    def who_stays(self) -> str:
        """The first importer, and what it does with Petastorm."""
        return f"{self.importers[0]} still {self._verb}s"

    @property
    def _verb(self) -> str:
        """What the first importer does: files of configuration and pages import nothing."""
        return "name" if self.importers[0].endswith(_DATA) else "import"
