"""What the other files of a run mean for one of them, and what its requirements need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


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

        The path or the URL of a wheel is one, too.

        Raises
        ------
        RequirementError
            If it is not a requirement of mdstorm.
        """
        from packaging.requirements import InvalidRequirement, Requirement

        try:
            found = Requirement(_with_name(text.strip()))
        except InvalidRequirement:
            found = None
        if found is None or found.name.lower() != "mdstorm" or found.marker is not None:
            raise RequirementError(
                f"{text!r} does not require mdstorm; write it as `mdstorm[torch]==0.2.*`, or give "
                "the path or the URL of a wheel"
            )
        version = f" @ {found.url}" if found.url else str(found.specifier)
        return cls(tuple(sorted(found.extras)), version)


def _with_name(text: str) -> str:
    """Return a requirement with its name; it may be the path or the URL of a wheel alone."""
    if not text.endswith(".whl") or "@" in text.partition("://")[0]:
        return text
    url = text if "://" in text else Path(text).absolute().as_uri()
    return f"{Path(text).name.partition('-')[0]} @ {url}"


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
    beside : tuple of str
        Distributions that came in through Petastorm, and that the code imports itself.
    importers : tuple of str
        Files that go on importing Petastorm, which therefore stays.
    moved : bool
        Whether code imports mdstorm, as far as is known.
    is_unused : bool
        Whether no code around imports either library: another one may need Petastorm.
    is_constraint : bool
        Whether the file constrains versions, and installs nothing.
    is_record : bool
        Whether the file says what is installed somewhere, and nothing installs from it.
    """

    wanted: Wanted = ANY
    index: str | None = None
    extras: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    importers: tuple[str, ...] = ()
    moved: bool = True
    is_unused: bool = False
    is_constraint: bool = False
    is_record: bool = False

    @property
    def why_petastorm_stays(self) -> str:
        """What is said of the requirement where there are importers."""
        more = len(self.importers) - 1
        others = f" and {more} more need" if more else " needs"
        return f"Petastorm is still required, because {self.importers[0]}{others} it"


@dataclass(frozen=True)
class Surroundings:
    """What the other files of a run mean for one of them.

    Attributes
    ----------
    waits_for : str or None
        Why nothing of the file may move without review: another file that it exchanges objects
        with still uses Petastorm.
    hands_on_root : bool
        Whether another file uses the name ``petastorm`` that this one imports.
    stays : str or None
        Why names of loggers may not change without review: another file of the run stays with
        Petastorm.
    names : str or None
        Why strings that name modules may not change without review, in a file of which it is not
        known what these reach.
    group : sequence of str
        Paths of the files that are written together with this one.
    """

    waits_for: str | None = None
    hands_on_root: bool = False
    stays: str | None = None
    group: Sequence[str] = ()
    names: str | None = None


#: Of a file alone.
ALONE = Surroundings()
