"""PM408: Spark's configuration: its files, and commands and definitions that have settings."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Class, Edit
from mdstorm_migrate.packaging.comments import ANY, is_commented_out
from mdstorm_migrate.petastorm.names import CONF_KEY, NEW_CONF_KEY

CODE = "PM408"
TITLE = "Spark's configuration uses mdstorm's key"
CLASS: Class = "review"
KIND = ("spark_conf", "cluster", "docker", "magic", "shell", "text")

_KEYS = {
    "spark_conf": re.compile(rf"^[ \t]*(?P<key>{re.escape(CONF_KEY)})(?=[ \t]*[=: \t])", re.M),
    "cluster": re.compile(rf"(?<![\w.])(?P<key>{re.escape(CONF_KEY)})(?=[\"']?[ \t]*[:=])"),
}
_ANYWHERE = re.compile(rf"(?<![\w.])(?P<key>{re.escape(CONF_KEY)})(?![\w.])")


def check(document: Document) -> Iterator[Edit]:
    """Yield the edits of keys; comments stay.

    mdstorm reads its own key first, so what is set here would take precedence over a program that
    sets Petastorm's key, as `SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF` does.
    """
    if CONF_KEY not in document.text:
        return
    for match in _KEYS.get(document.kind, _ANYWHERE).finditer(document.text):
        start, stop = match.span("key")
        if not is_commented_out(document.text, start, ANY):
            message = "use mdstorm's key, which takes precedence where a program sets Petastorm's"
            yield Edit(CODE, "review", start, stop, NEW_CONF_KEY, message)
