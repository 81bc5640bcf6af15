"""Images whose names have variables, to which the same file gives values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from mdstorm_migrate.packaging.comments import ANY, is_commented_out
from mdstorm_migrate.packaging.hosts import pythons_of_images
from mdstorm_migrate.packaging.pin import Pin
from mdstorm_migrate.packaging.releases import images_with_pythons, sparks_of_images

#: ``FROM apache/airflow:${AIRFLOW}-python3.8``
_NAME = re.compile(
    r"""(?: ^[ \t]*FROM[ \t]+(?:--\S+[ \t]+)? | \bimage["']?[ \t]*[:=][ \t]*["']? )
    (?P<name>(?:[\w./:@-]|\$\w+|\$\{\w+(?::-[\w./:-]*)?\})*\$(?:[\w./:@${}-])*)""",
    re.VERBOSE | re.MULTILINE | re.IGNORECASE,
)
_VARIABLE = re.compile(r"\$(?:(?P<plain>\w+)|\{(?P<braces>\w+)(?::-(?P<default>[\w./:-]*))?\})")
#: Where a name gets a value: ``ARG NAME=value``, ``NAME: value``, ``ENV NAME value``.
_VALUE = r"""^[ \t-]*(?:(?:ARG|ENV|export)[ \t]+)?["']?{}["']?(?:[ \t]*[:?]?[=:][ \t]*|[ \t]+)["']?
    (?P<value>[\w.][\w./:-]*)"""


def pins_of_filled_images(text: str, known: Sequence[Pin]) -> Iterator[Pin]:
    """Yield the Pythons and the Sparks of images, once their variables have their values.

    Those are left out that have the value of a pin which is `known` already.
    """
    for image in _NAME.finditer(text):
        if is_commented_out(text, image.start(), ANY):
            continue
        start, stop = image.span("name")
        name, values = _filled(image["name"], text)
        if any(pin.start < end and begin < pin.stop for pin in known for begin, end in values):
            continue
        said = f"{text[:start]}{name}{text[stop:]}"
        found = (
            *pythons_of_images(said),
            *images_with_pythons(said, text),
            *sparks_of_images(said),
        )
        for pin in found:
            if start <= pin.start < start + len(name):
                where = pin.where or name.rpartition("/")[2]
                yield replace(pin, start=start, stop=stop, is_fixed=True, where=where)


def _filled(name: str, text: str) -> tuple[str, list[tuple[int, int]]]:
    """Return a name with the values of its variables, and where these stand.

    A variable without just one value has ``x``.
    """
    spans: list[tuple[int, int]] = []
    for variable in _VARIABLE.finditer(name):
        key = variable["plain"] or variable["braces"]
        pattern = re.compile(_VALUE.format(key), re.MULTILINE | re.VERBOSE)
        found = list(pattern.finditer(text))
        spans += [one.span("value") for one in found]
        values = {one["value"] for one in found} or {variable["default"] or "x"}
        name = name.replace(variable[0], values.pop() if len(values) == 1 else "x", 1)
    return name, spans
