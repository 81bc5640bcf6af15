"""PM131: classes and functions that configuration in JSON and YAML names."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import NAMES, Class, Edit, Finding
from mdstorm_migrate.petastorm.names import NEW_ROOT, OLD_ROOT, missing, renamed

CODE = "PM131"
TITLE = "Configuration names classes and functions of mdstorm"
CLASS: Class = "review"
KIND = ("cluster", "text")

#: Files of other kinds that are configuration.
_CONFIGURATION = frozenset({".cfg", ".ini", ".toml"})
#: A value that is a dotted path, behind a key or in a list. The last name may stand behind a colon,
#: as in entry points.
_VALUE = re.compile(
    rf"""(?: (?<![\w().-])(?P<key>[\w().-]+)["']?[ \t]*[:=][ \t]*
           | (?<=[\[,])\s*(?=["']) | (?m:^)[ \t]*-[ \t]+ )
    (?P<quote>["']?)
    (?P<path>{OLD_ROOT}(?:\.[^\W\d]\w*)*(?:[.:][^\W\d]\w*))(?P=quote)
    (?=[ \t]*(?:[,}}\]\r\n]|\#|\Z))""",
    re.VERBOSE,
)
#: Keys whose values are imported and called: by Hydra and Lightning's command line.
_CALLED = frozenset({"_target_", "class_path"})


def check(document: Document) -> Iterator[Edit | Finding]:
    """Yield an edit for each value that is imported; a finding if mdstorm has none of the name.

    Edits are exact together with the code that reads the file; without, `run.waiting` holds them.
    """
    suffix = "" if document.path is None else document.path.suffix
    if document.kind == "text" and suffix not in _CONFIGURATION:
        return
    for match in _VALUE.finditer(document.text):
        key, path, start = match["key"] or "", match["path"].replace(":", "."), match.start("path")
        is_image = match["path"].startswith(f"{OLD_ROOT}:") and missing(path) is not None
        if is_image or not (":" in match["path"] or key.rpartition(".")[2] in _CALLED):
            continue
        if lacking := missing(path):
            why = f'"{path}" names a part of Petastorm; `{lacking}` is not in mdstorm'
            remedy = f"{why}: change it by hand"
            stop = start + len(path)
            yield Finding(CODE, "manual", start, stop, why, remedy, holds=match["path"])
        else:
            message = f'"{path}" becomes "{renamed(path)}"'
            yield Edit(CODE, "exact", start, start + len(OLD_ROOT), NEW_ROOT, message, NAMES)
