"""PM408: Spark's configuration: its files, and commands and definitions that have settings."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Class, Edit, Finding
from mdstorm_migrate.packaging.comments import ANY, is_commented_out
from mdstorm_migrate.packaging.remaining import report_remaining
from mdstorm_migrate.petastorm.names import CONF_KEY, NEW_CONF_KEY
from mdstorm_migrate.python.archives import of_shipped, shipped_library

CODE = "PM408"
TITLE = "Spark's configuration files use mdstorm's key"
CLASS: Class = "review"
KIND = ("spark_conf", "docker", "magic", "shell", "text")

_KEY = re.compile(rf"^[ \t]*(?P<key>{re.escape(CONF_KEY)})(?=[ \t]*[=: \t])", re.MULTILINE)
#: In commands, texts that they write, and maps of Terraform.
_ANYWHERE = re.compile(rf"(?<![\w.])(?P<key>{re.escape(CONF_KEY)})(?![\w.])")
#: A line of Spark's own settings.
_SETTING = re.compile(r"^[ \t]*spark\.[\w.]+[ \t]*[=: \t][ \t]*(?P<value>[^\r\n]+)", re.MULTILINE)


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
        shipped = list(_shipped(document))
        yield from shipped
        yield from report_remaining(document, CODE, {one.start for one in shipped})


def _shipped(document: Document) -> Iterator[Finding]:
    """Report files of Petastorm's that settings send to executors, or have on their path."""
    for setting in _SETTING.finditer(document.text):
        file = shipped_library(setting["value"])
        if file is not None:
            start = setting.start("value") + setting["value"].index(file)
            yield of_shipped(file, CODE, start, start + len(file))
