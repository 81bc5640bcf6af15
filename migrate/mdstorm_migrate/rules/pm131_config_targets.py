"""PM131: classes and functions that configuration in JSON and YAML names."""

from __future__ import annotations

from collections.abc import Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import NAMES, Class, Edit, Finding
from mdstorm_migrate.petastorm.configuration import CALLED, VALUE, is_image, loggers
from mdstorm_migrate.petastorm.names import NEW_ROOT, OLD_ROOT, is_module, missing, renamed

CODE = "PM131"
TITLE = "Configuration names classes and functions of mdstorm"
CLASS: Class = "review"
KIND = ("cluster", "text")

#: Files of other kinds that are configuration.
_CONFIGURATION = frozenset({".cfg", ".ini", ".toml"})


def check(document: Document) -> Iterator[Edit | Finding]:
    """Yield an edit for each value that is imported, and a finding for the others.

    Edits are exact together with the code that reads the file; without, `run.waiting` holds them.
    """
    suffix = "" if document.path is None else document.path.suffix
    if document.kind == "text" and suffix not in _CONFIGURATION:
        return
    for match in VALUE.finditer(document.text):
        if is_image(match["path"]):
            continue
        start, stop = match.span("path")
        path, is_entry = match["path"].replace(":", "."), ":" in match["path"]
        what = f'"{path}" names a part of Petastorm'
        if lacking := missing(path):
            if match["key"] in CALLED or is_entry:
                why = f"{what}; `{lacking}` is not in mdstorm"
                remedy = f"{why}: change it by hand"
                yield Finding(CODE, "manual", start, stop, why, remedy, holds=path)
        elif match["key"] in CALLED or is_entry:
            message = f'"{path}" becomes "{renamed(path)}"'
            yield Edit(CODE, "exact", start, start + len(OLD_ROOT), NEW_ROOT, message, NAMES)
        elif is_entry:
            message = f'"{match["path"]}" names mdstorm'
            yield Edit(CODE, CLASS, start, start + len(OLD_ROOT), NEW_ROOT, message, NAMES)
        elif not is_module(path):
            remedy = f"{what}: name mdstorm in it if it is looked up"
            yield Finding(CODE, "manual", start, stop, what, remedy, holds=path)
    for start, _ in loggers(document.text):
        message = "configure the logger of mdstorm"
        yield Edit(CODE, "review", start, start + len(OLD_ROOT), NEW_ROOT, message)
