"""What other files in a run give one file, and what its requirements must contain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path


class RequirementError(ValueError):
    """A requirement for something other than mdstorm."""


@dataclass(frozen=True)
class Wanted:
    """The requirement for mdstorm that the migration writes, as given by ``--requirement``.

    Attributes
    ----------
    extras : tuple of str
    version : str
        Such as ``==0.2.*``, or `` @ https://…``; empty for any version.
    """

    extras: tuple[str, ...] = ()
    version: str = ""

    def __str__(self) -> str:
        """Return the requirement as a string."""
        extras = f"[{','.join(self.extras)}]" if self.extras else ""
        return f"mdstorm{extras}{self.version}"

    @classmethod
    def parse(cls, text: str) -> Wanted:
        """Parse a requirement such as ``mdstorm[torch]==0.2.*``.

        The path or the URL of a wheel is also accepted.

        Raises
        ------
        RequirementError
            If `text` is not a requirement for mdstorm.
        """
        from packaging.requirements import InvalidRequirement, Requirement

        try:
            requirement = Requirement(_with_name(text.strip()))
        except InvalidRequirement:
            requirement = None
        if (
            requirement is None
            or requirement.name.lower() != "mdstorm"
            or requirement.marker is not None
        ):
            raise RequirementError(
                f"{text!r} does not require mdstorm; write it as `mdstorm[torch]==0.2.*`, or pass "
                "the path or URL of a wheel"
            )
        version = f" @ {requirement.url}" if requirement.url else str(requirement.specifier)
        return cls(tuple(sorted(requirement.extras)), version)


def _with_name(text: str) -> str:
    """Return the requirement, prefixed with a name if it is just the path or URL of a wheel."""
    if not text.endswith(".whl") or "@" in text.partition("://")[0]:
        return text
    url = text if "://" in text else Path(text).absolute().as_uri()
    return f"{Path(text).name.partition('-')[0]} @ {url}"


#: A requirement for any version, without extras.
ANY = Wanted()


@dataclass(frozen=True)
class Needs:
    """What a file's requirements must contain. The defaults are for a file that is migrated alone.

    Attributes
    ----------
    wanted : Wanted
    index : str or None
        The index on which pip also finds mdstorm.
    extras : tuple of str
        Extras that the code needs and that no other requirement brings in.
    transitive : tuple of str
        Petastorm's dependencies that the code imports itself.
    importers : tuple of str
        Files that still import the library, so the requirement has to stay.
    moved : bool
        Whether code imports mdstorm, as far as known.
    refuses : bool
        Whether mdstorm cannot be required here, so that what runs here stays on Petastorm.
    is_unused : bool
        Whether no surrounding code imports either library, so that something else may need
        Petastorm.
    is_constraint : bool
        Whether the file constrains versions, and installs nothing.
    is_override : bool
        Whether the constraint also replaces requirements, with their extras.
    is_record : bool
        Whether the file only records installed packages, and nothing installs from it.
    parts : tuple of Needs
        What each part of the file needs that is installed separately; empty if it has no parts.
    """

    wanted: Wanted = ANY
    index: str | None = None
    extras: tuple[str, ...] = ()
    transitive: tuple[str, ...] = ()
    importers: tuple[str, ...] = ()
    moved: bool = True
    refuses: bool = False
    is_unused: bool = False
    is_constraint: bool = False
    is_override: bool = False
    is_record: bool = False
    parts: tuple[Needs, ...] = ()

    def moving(self, part: int, *, refuses: bool = False) -> Needs:
        """Return the needs if code that imports mdstorm runs where a part installs packages."""
        parts = tuple(
            replace(one, moved=True, refuses=refuses) if number == part else one
            for number, one in enumerate(self.parts)
        )
        own = self if part else replace(self, moved=True, refuses=refuses)
        return replace(own, parts=parts)

    def with_user(self) -> Needs:
        """Return the needs if some code uses what the file installs."""
        parts = tuple(replace(one, is_unused=False) for one in self.parts)
        return replace(self, is_unused=False, parts=parts)

    @property
    def why_petastorm_stays(self) -> str:
        """The reason why Petastorm remains required; `importers` must not be empty."""
        more = len(self.importers) - 1
        others = f" and {more} more need" if more else " needs"
        return f"Petastorm is still required, because {self.importers[0]}{others} it"


@dataclass(frozen=True)
class Given:
    """What other files of a run give a file.

    Attributes
    ----------
    names : mapping of str to str, optional
        The names, with attributes, by which this file reaches parts of Petastorm through other
        modules, such as ``compat.petastorm``, and the paths of these parts. If it is not None, the
        file is examined even if it does not mention Petastorm.
    shares_root : bool
        Whether another file uses the name ``petastorm`` that this one imports.
    leaked : frozenset of str
        Names that other files use without binding them, and that import all names of this one.
    has_namesake : bool
        Whether the project has a module of its own with Petastorm's name in its name.
    finders : frozenset of str
        The names, with attributes, by which this file reaches functions and classes of other files
        that find modules by names given to them.
    listed : frozenset of str
        The names of this file that files which find modules by such names import; ``*`` for all.
    has_converter : bool
        Whether the project makes a converter, and has no attributes of its own with the names of
        the attributes with a converter's files.
    packages : frozenset of str
        The names, with attributes, by which this file reaches functions of other files that return
        the package ``petastorm``.
    handed : frozenset of (str, str)
        The functions and classes of this file to which others pass a converter's loader, and the
        position or the keyword.
    """

    names: Mapping[str, str] | None = None
    shares_root: bool = False
    leaked: frozenset[str] = frozenset()
    has_namesake: bool = False
    finders: frozenset[str] = frozenset()
    listed: frozenset[str] = frozenset()
    has_converter: bool = False
    packages: frozenset[str] = frozenset()
    handed: frozenset[tuple[str, str]] = frozenset()


#: What a file that is migrated without other files is given.
NOTHING = Given()
