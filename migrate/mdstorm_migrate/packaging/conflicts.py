"""Pins that leave no version of what mdstorm needs, and what takes their place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.packaging.bounds import (
    BASE,
    ENDED,
    EXTRAS,
    PYTHON,
    RUNTIME,
    SINCE,
    conflicts,
    lower_bounds,
    raised,
    raised_python,
    release,
)
from mdstorm_migrate.packaging.environments import are_old, without_old
from mdstorm_migrate.packaging.own_extras import own_extras
from mdstorm_migrate.packaging.pin import LISTED, Pin
from mdstorm_migrate.packaging.pin import PYTHON as PYTHON_NAME
from mdstorm_migrate.packaging.pins import pins_of
from mdstorm_migrate.packaging.upper_bounds import ENDS
from mdstorm_migrate.petastorm.extras import USES

#: What of Petastorm's stands for extras in the code of a file.
_USES = {extra: re.compile(USES[extra]) for extra in ("spark", "tf", "torch")}
#: What parts of mdstorm need, by what lists pin: the extra, and the name of the part.
_PARTS = {
    "pyspark": ("spark", "Spark"),
    "tensorflow": ("tf", "TensorFlow"),
    "tensorflow-cpu": ("tf", "TensorFlow"),
    "torch": ("torch", "PyTorch"),
}


@dataclass(frozen=True)
class Conflict:
    """A pin that mdstorm cannot be installed beside.

    Attributes
    ----------
    pin : Pin
    replacement : str
        What may stand in place of its versions; empty where nobody but the user can tell.
    lowest : str
        The oldest version that mdstorm takes.
    """

    pin: Pin
    replacement: str
    lowest: str = ""

    @property
    def needed(self) -> str:
        """What mdstorm needs, in words."""
        if self.pin.style == "runtime":
            spark = EXTRAS["spark"]["pyspark"]
            for_what = f"for Python {PYTHON} and Spark {spark}"
            return f"mdstorm needs Databricks Runtime {RUNTIME} or newer, {for_what}"
        if self.pin.where == LISTED:
            return f"{LISTED} has Python {self.pin.specifier}; mdstorm needs {PYTHON} or newer"
        if self.pin.name == PYTHON_NAME:
            return f"mdstorm needs Python {PYTHON} or newer"
        if self.pin.name in ENDED:
            name = ENDED[self.pin.name]
            return (
                f"mdstorm needs {name} {lower_bounds(['tf'])[name]}, which {self.pin.name} is not"
            )
        if any(one.get(self.pin.name) == self.lowest for one in (BASE, *EXTRAS.values())):
            return f"mdstorm needs {self.pin.name} {self.lowest} or newer"
        return f"{self.pin.name} goes with mdstorm from {self.lowest} on"

    @property
    def refusal(self) -> str:
        """Who does not install mdstorm beside the pin, in words."""
        is_range = self.pin.name == PYTHON_NAME and self.pin.style in ("pip", "poetry")
        if is_range and not conflicts(self.pin.specifier, PYTHON, self.pin.style):
            return (
                "Poetry, uv and PDM, which resolve for every Python that is stated, refuse it "
                f"beside `{self.shown}`, and pip does on older Pythons"
            )
        return f"no installer takes it beside `{self.shown}`"

    @property
    def shown(self) -> str:
        """The pin in one word or two."""
        if self.pin.style == "runtime":
            return f"Databricks Runtime {self.pin.specifier}"
        if self.pin.where:
            name = "Python" if self.pin.name == PYTHON_NAME else "Spark"
            return f"{name} {self.pin.specifier.lstrip('=')} of {self.pin.where}"
        if self.pin.style == "environments":
            return f"envlist {' '.join(self.pin.specifier.split())}"
        gap = "" if self.pin.specifier[:1] in "=<>~!^" else " "
        return f"{self.pin.name}{gap}{' '.join(self.pin.specifier.split())}"


def conflicts_in(document: Document) -> Iterator[Conflict]:
    """Yield what of a document conflicts with mdstorm, as it is required there or used."""
    for one in conflicts_of(pins_of(document), _extras(document)):
        yield beside_petastorm(one) if document.needs.are_beside else one


def beside_petastorm(one: Conflict) -> Conflict:
    """Return a conflict whose replacement leaves what Petastorm works with, too."""
    end = ENDS.get(one.pin.name)
    if end is None or not one.replacement or one.replacement.endswith(f",<{end}"):
        return one
    return replace(one, replacement=f"{one.replacement},<{end}")


def conditions_in(document: Document) -> Iterator[tuple[Pin, str]]:
    """Yield pins that conflict with a part of mdstorm that no code is known to use, and why."""
    extras = _extras(document)
    bounds = lower_bounds(extras)
    for pin in pins_of(document):
        extra, part = _PARTS.get(pin.name, ("", ""))
        if not extra or extra in extras or "$" in pin.specifier or "{" in pin.specifier:
            continue
        if pin.name in bounds and conflicts(pin.specifier, bounds[pin.name], pin.style):
            continue  # in any case
        lowest = lower_bounds({extra})[pin.name]
        if conflicts(pin.specifier, lowest, pin.style):
            yield pin, f"mdstorm's {part} part needs {pin.name}>={lowest}, if the code uses it"


def _extras(document: Document) -> set[str]:
    """Return the extras of mdstorm that a document requires, or code uses that goes with it."""
    needs = document.needs
    extras = {*needs.uses, *needs.extras, *needs.wanted.extras, *own_extras(document)}
    if document.kind == "python":  # which says itself what it uses
        extras.update(one for one, names in _USES.items() if names.search(document.text))
    return extras


def conflicts_of(pins: Iterator[Pin] | list[Pin], extras: set[str]) -> Iterator[Conflict]:
    """Yield those of some pins that conflict with mdstorm and these extras of it."""
    bounds = lower_bounds(extras)
    for pin in pins:
        if pin.style != "environments" and re.search(r"[${]", pin.specifier):
            continue  # a variable, whose value is elsewhere
        if pin.name == PYTHON_NAME:
            replacement = _python(pin)
        elif pin.name in ENDED:
            replacement = ""
        elif pin.name in SINCE and conflicts(pin.specifier, SINCE[pin.name], pin.style):
            continue
        elif pin.name in bounds and conflicts(pin.specifier, bounds[pin.name], pin.style):
            replacement = raised(pin.specifier, bounds[pin.name], pin.name)
        else:
            continue
        if replacement is not None:
            lowest = bounds.get(pin.name, "")
            yield Conflict(pin, "" if pin.is_fixed else replacement, lowest)


def is_host(pin: Pin) -> bool:
    """Whether a pin says which Pythons run something, not which ones a project supports."""
    is_python = pin.name == PYTHON_NAME and pin.where != LISTED
    return is_python and pin.style not in ("pip", "poetry")


def is_old_host(pin: Pin) -> bool:
    """Whether none of the Pythons of a host is one that mdstorm runs on."""
    if pin.style == "environments":
        return are_old(pin.specifier)
    if pin.style in ("list", "block"):
        versions = [one for one in re.split(r"[,\n]", pin.specifier) if re.search(r"\d", one)]
        return bool(versions) and all(map(_is_old, versions))
    return _python(pin) is not None


def _python(pin: Pin) -> str | None:
    if pin.where == LISTED:
        return "" if conflicts(pin.specifier, PYTHON, pin.style) else None
    if pin.style == "runtime":
        last = pin.specifier.replace("x", "99")  # of `13.x`
        return "" if release(last) < release(RUNTIME) else None
    if pin.style == "list":
        return _listed(pin.specifier)
    if pin.style == "block":
        return _lines(pin.specifier)
    if pin.style == "environments":
        return without_old(pin.specifier)
    if pin.style == "version" or (pin.style == "conda" and "," not in pin.specifier):
        plain = pin.specifier.strip("= \"'")
        if not conflicts(plain, PYTHON, "pip"):
            return None
        if pin.yaml:  # where 3.10 without quotes is the number 3.1
            quote = pin.specifier[0] if pin.specifier[0] in "\"'" else '"'
            return f"{quote}{PYTHON}{quote}"
        is_conda = pin.style == "conda" and pin.specifier.startswith("=")
        return f"={PYTHON}" if is_conda else PYTHON
    if pin.style == "poetry" and release(pin.specifier) and pin.specifier[0].isdigit():
        return raised_python(f"=={pin.specifier}")
    return raised_python(pin.specifier, pin.style)


def _listed(versions: str) -> str | None:
    """Return a list of versions without those that are too old; None if there is none."""
    items = [one.strip() for one in versions.split(",") if one.strip()]
    kept = [one for one in items if not _is_old(one)]
    if len(kept) == len(items):
        return None
    if not kept:
        kept = [re.sub(r"\d+(?:\.\d+)?", "310" if "py" in items[0] else PYTHON, items[0])]
        kept = [f'"{one}"' if one == PYTHON else one for one in kept]
    return ", ".join(kept) if re.search(r",\s", versions) else ",".join(kept)


def _lines(versions: str) -> str | None:
    """Return a list with a version a line without those that are too old; None if there is none."""
    lines = versions.splitlines(keepends=True)
    kept = [one for one in lines if not _is_old(one)]
    if len(kept) == len(lines):
        return None
    new = re.sub(r"""(["']?)\d[\d.]*\1""", f'"{PYTHON}"', lines[0], count=1)
    return "".join(kept or [new])


def _is_old(version: str) -> bool:
    """Whether ``"3.8"`` or ``py38`` is older than what mdstorm needs."""
    match = re.search(r"(?:py)?(\d)\.?(\d*)", version)
    return match is not None and (int(match[1]), int(match[2] or 99)) < release(PYTHON)
