"""`AbsentNames`: errors for names that a package in a library's place does not have."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from dis import opmap
from types import FrameType

from mdstorm_backend import errors
from mdstorm_backend.base import cached_property

_IMPORT_FROM = opmap["IMPORT_FROM"]


@dataclass(frozen=True)
class AbsentNames:
    """The names of a library that the package in its place does not have.

    Attributes
    ----------
    library, package : str
        The library, and the package that replaces it.
    page : str
        The page that lists the replacements.
    sections : mapping of str to tuple of str
        Anchor of a section of the page → the names that it covers: dotted paths below the library,
        or ``*.name`` for a name in any module.
    homes : mapping of str to str
        Names that programs look for in the wrong module → what they are.
    """

    library: str
    package: str
    page: str
    sections: Mapping[str, tuple[str, ...]]
    homes: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def names(self) -> dict[str, str]:
        """Anchors of sections, by the names that the sections cover."""
        return {name: section for section, names in self.sections.items() for name in names}

    def replacement(self, path: str) -> str | None:
        """Return the section about a name's replacement, as ``page#section``.

        Parameters
        ----------
        path : str
            Dotted path that begins with the library or the package: a name in the table, or a name
            within one.

        Returns
        -------
        str or None
            The section; None if no section covers the name.
        """
        parts = path.removeprefix(self.package).removeprefix(self.library).split(".")[1:]
        paths = [".".join(parts[:stop]) for stop in range(len(parts), 0, -1)]
        for name in [*paths, f"*.{parts[-1]}"]:
            if name in self.names:
                return f"{self.page}#{self.names[name]}"
        return None

    def refuse_import(self, path: str) -> None:
        """Raise MissingModuleError, as a finder does, if there is a replacement for the module.

        `importlib.util.find_spec` gets no error: it returns None for missing modules.
        """
        place, home = self.replacement(path), self.homes.get(path.rpartition(".")[2])
        remedy = f"{place} of mdstorm describes the replacement" if place else f"it is {home}"
        if (place or home) and not is_in_find_spec(sys._getframe(1)):
            raise errors.MissingModuleError(f"No module named {path!r}: {remedy}", name=path)

    def error(self, module: str, name: str, caller: FrameType) -> Exception:
        """Return the error for a name that a module does not have.

        Parameters
        ----------
        module : str
            The module, by the name that the caller uses.
        name : str
            The name.
        caller : frame
            The frame that uses the name. ``from module import name`` hides the message of an
            `AttributeError`, so an `ImportError` is returned there, and only there: `hasattr`
            expects an `AttributeError`.
        """
        place = self.replacement(f"{module}.{name}")
        theirs = self.library + module.removeprefix(self.package).removeprefix(self.library)
        if place is not None:
            message = (
                f"mdstorm has no counterpart of {theirs}.{name}: {place} describes the replacement"
            )
        elif name in self.homes:
            message = f"it is {self.homes[name]}"
        else:
            return AttributeError(f"module {module!r} has no attribute {name!r}")
        if caller.f_code.co_code[caller.f_lasti] == _IMPORT_FROM:
            return errors.MissingNameError(
                f"cannot import name {name!r} from {module!r}: {message}"
            )
        return errors.MissingAttributeError(
            f"module {module!r} has no attribute {name!r}: {message}"
        )


def is_in_find_spec(finder: FrameType) -> bool:
    """Whether `importlib.util.find_spec`, which expects no error, has called this finder."""
    machinery = finder.f_back  # importlib's loop over all finders
    caller = None if machinery is None else machinery.f_back
    return caller is not None and caller.f_globals.get("__name__") == "importlib.util"
