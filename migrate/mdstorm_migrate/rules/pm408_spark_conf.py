"""PM408: Spark's configuration: its files, and commands and definitions that have settings."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Class, Edit, Finding
from mdstorm_migrate.packaging.comments import ANY, is_commented_out
from mdstorm_migrate.packaging.remaining import report_remaining
from mdstorm_migrate.petastorm.names import CONF_KEY, NEW_CONF_KEY

CODE = "PM408"
TITLE = "Spark's configuration files use mdstorm's key"
CLASS: Class = "review"
KIND = ("spark_conf", "docker", "magic", "shell", "text")

_KEY = re.compile(rf"^[ \t]*(?P<key>{re.escape(CONF_KEY)})(?=[ \t]*[=: \t])", re.MULTILINE)
#: In commands, texts that they write, and maps of Terraform.
_ANYWHERE = re.compile(rf"(?<![\w.])(?P<key>{re.escape(CONF_KEY)})(?![\w.])")


def check(document: Document) -> Iterator[Edit | Finding]:
    """Yield the edits of keys; comments stay. Packages that Spark installs are reported.

    mdstorm reads its own key first, so what is set here would take precedence over a program that
    sets Petastorm's key, as `SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF` does.
    """
    is_conf = document.kind == "spark_conf"
    for match in (_KEY if is_conf else _ANYWHERE).finditer(document.text):
        start, stop = match.span("key")
        if is_commented_out(document.text, start, ANY):
            continue
        message = "use mdstorm's key, which takes precedence where a program sets Petastorm's"
        yield Edit(CODE, "review", start, stop, NEW_CONF_KEY, message)
    if is_conf:
        yield from report_remaining(document, CODE, ())
