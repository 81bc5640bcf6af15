"""Keep Petastorm's and mdstorm's own configuration where a Spark session refuses to take it.

Legacy programs name their cache directory with ``spark.conf.set``, which serverless compute refuses
for keys that it does not know.
"""

from __future__ import annotations

import functools
import logging
from types import ModuleType
from typing import Any

from mdstorm_backend.base import when_loaded

#: The class of ``spark.conf``, by its module.
_CLASSES = {
    "pyspark.sql.conf": "RuntimeConfig",
    "pyspark.sql.connect.conf": "RuntimeConf",
}
#: What the keys begin with that Spark itself does not need to know.
_OWN = ("mdstorm.", "petastorm.")

_logger = logging.getLogger(__name__)

#: What sessions refused to take. A process has one configuration of its own.
_kept: dict[str, str] = {}


def install() -> None:
    """Let ``spark.conf`` keep what it is refused of our own keys, in this process."""
    when_loaded(_CLASSES, _patch)


def _patch(module: ModuleType) -> None:
    """Patch the methods of the class in a module; again does nothing."""
    conf = getattr(module, _CLASSES[module.__name__])
    if hasattr(conf.set, "keeps_for_mdstorm"):
        return
    set_, get, unset = conf.set, conf.get, conf.unset

    @functools.wraps(set_)
    def set_or_keep(self: Any, key: str, value: Any) -> None:
        try:
            set_(self, key, value)
        except Exception as error:
            if not _is_own(key, error):
                raise
            _kept[key] = str(value)
            _logger.info("this Spark session refuses the conf %s: kept in this process", key)
        else:
            _kept.pop(key, None)

    @functools.wraps(get)
    def get_or_kept(self: Any, key: str, *default: Any, **named: Any) -> Any:
        return _kept[key] if key in _kept else get(self, key, *default, **named)

    @functools.wraps(unset)
    def unset_kept(self: Any, key: str) -> None:
        if _kept.pop(key, None) is None:
            unset(self, key)

    set_or_keep.keeps_for_mdstorm = True  # type: ignore[attr-defined]
    conf.set, conf.get, conf.unset = set_or_keep, get_or_kept, unset_kept


def _is_own(key: object, error: Exception) -> bool:
    from mdstorm_backend.spark import is_refusal  # which imports Arrow

    return isinstance(key, str) and key.startswith(_OWN) and is_refusal(error)
