"""What a package lacks of the library in whose place it stands, and where that is documented."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from dis import opmap
from types import FrameType

from mdstorm_backend.base import cached_property
from mdstorm_backend.errors import MissingAttributeError, MissingNameError

_IMPORT_FROM = opmap["IMPORT_FROM"]


@dataclass(frozen=True)
class AbsentNames:
    """The names of a library that its stand-in lacks.

    Attributes
    ----------
    library, package : str
        The library, and ours in its place.
    page : str
        The page that says what replaces each name.
    sections : mapping of str to tuple of str
        Anchor of a section of the page → the names it is about: dotted paths below the library, or
        ``*.name`` for a name of whatever module.
    homes : mapping of str to str
        Names that are looked for in other modules than their own, and those.
    """

    library: str
    package: str
    page: str
    sections: Mapping[str, tuple[str, ...]]
    homes: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def names(self) -> dict[str, str]:
        """Each of the names, and the anchor of its section."""
        return {name: section for section, names in self.sections.items() for name in names}

    def replacement(self, path: str) -> str | None:
        """Return where the page says what replaces a name, as ``page#section``.

        Parameters
        ----------
        path : str
            Dotted path that begins with the library or the package: what is in the table, or is
            part of that.

        Returns
        -------
        str or None
            None if neither is there.
        """
        parts = path.removeprefix(self.package).removeprefix(self.library).split(".")[1:]
        paths = [".".join(parts[:stop]) for stop in range(len(parts), 0, -1)]
        for name in [*paths, f"*.{parts[-1]}"]:
            if name in self.names:
                return f"{self.page}#{self.names[name]}"
        return None

    def error(self, module: str, name: str, asker: FrameType) -> Exception:
        """Return the error for a name that a module lacks.

        Parameters
        ----------
        module : str
            The module, as whoever asks calls it.
        name : str
            The name.
        asker : frame
            Who asks. Of an `AttributeError` within ``from module import name`` Python shows
            nothing, so that an `ImportError` is due there, and only there: `hasattr` expects the
            former.
        """
        place = self.replacement(f"{module}.{name}")
        theirs = self.library + module.removeprefix(self.package).removeprefix(self.library)
        if place is not None:
            message = (
                f"mdstorm has no counterpart of {theirs}.{name}: {place} says what replaces it"
            )
        elif name in self.homes:
            message = f"it is {self.homes[name]}.{name}"
        else:
            return AttributeError(f"module {module!r} has no attribute {name!r}")
        if asker.f_code.co_code[asker.f_lasti] == _IMPORT_FROM:
            return MissingNameError(f"cannot import name {name!r} from {module!r}: {message}")
        return MissingAttributeError(f"module {module!r} has no attribute {name!r}: {message}")
