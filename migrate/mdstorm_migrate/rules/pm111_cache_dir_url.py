"""PM111: a parent cache directory that is not a URL."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mdstorm_migrate.base.edits import Class, Finding
from mdstorm_migrate.python.conf_writes import conf_writes
from mdstorm_migrate.python.module import PythonModule, string_value

CODE = "PM111"
TITLE = "The parent cache directory must be a URL"
CLASS: Class = "manual"
KIND = "python"

#: A scheme, or one of the mounts of Databricks that mdstorm takes for URLs.
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|/(?:Volumes|Workspace|dbfs)/")


def check(module: PythonModule) -> Iterable[Finding]:
    """Yield a finding for each directory without scheme, which Petastorm refuses as well."""
    for write in conf_writes(module):
        text = string_value(write.value)
        if text is not None and not _URL.match(text):
            what = f"`{module.source_of(write.value)}` is a path, not a URL"
            remedy = f"{what}: write file:///... (Petastorm rejects it too)"
            yield Finding(CODE, CLASS, *module.span(write.value), what, remedy)
