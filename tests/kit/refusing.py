"""A Spark session that refuses the calls that serverless compute refuses, with the same errors.

It is an ordinary session whose public classes deny callers outside PySpark most configuration, the
JVM, RDDs, caching and, on request, Python on executors. PySpark itself can still use all of them.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import FrameType
from typing import Any

import pytest

from mdstorm import install_as_petastorm

#: Settings that serverless compute lets its users read and set.
AVAILABLE_CONF = frozenset(
    {
        "spark.databricks.execution.timeout",
        "spark.sql.ansi.enabled",
        "spark.sql.legacy.timeParserPolicy",
        "spark.sql.session.timeZone",
        "spark.sql.shuffle.partitions",
    }
)
_SESSION = ("_jsc", "_jsparkSession", "_jvm", "_sc", "sparkContext")
_FRAME = ("_jdf", "_sc", "rdd")

#: The module that wraps methods of PySpark; the code that calls a wrapper counts as the caller.
_WRAPPER = install_as_petastorm.__module__
#: Packages whose modules may call refused methods.
_exempt = {"pyspark", "py4j"}


def _is_exempt(depth: int = 2) -> bool:
    """Whether the calling code may use refused methods and attributes, as PySpark's code may."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None and frame.f_globals.get("__name__") == _WRAPPER:
        frame = frame.f_back
    name = "" if frame is None else str(frame.f_globals.get("__name__", ""))
    return name.partition(".")[0] in _exempt


def refusal(condition: str, text: str, kind: str = "AnalysisException") -> Exception:
    """Make a PySpark error whose condition can be read in every PySpark version."""
    error: Any = getattr(import_module("pyspark.errors"), kind)(text)
    error._errorClass = error.error_class = condition
    return error  # type: ignore[no-any-return]


def _not_supported(feature: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise refusal(
            "NOT_SUPPORTED_WITH_SERVERLESS",
            f"{feature} is not supported on serverless compute. SQLSTATE: 0A000",
        )

    return refuse


class _Attribute:
    """An instance attribute that only PySpark may read."""

    def __init__(self, name: str, original: Any) -> None:
        self.name, self.original = name, original

    def __get__(self, instance: Any, owner: Any) -> Any:
        if instance is not None and not _is_exempt():
            raise refusal(
                "JVM_ATTRIBUTE_NOT_SUPPORTED",
                "Directly accessing the underlying Spark driver JVM using the attribute "
                f"'{self.name}' is not supported on serverless compute.",
                "PySparkAttributeError",
            )
        if self.original is not None:
            return self.original.__get__(instance, owner)
        if instance is None or self.name not in vars(instance):
            raise AttributeError(self.name)
        return vars(instance)[self.name]

    def __set__(self, instance: Any, value: Any) -> None:
        vars(instance)[self.name] = value


def _guarded(method: Any) -> Any:
    def call(self: Any, key: str, *args: Any, **kwargs: Any) -> Any:
        if key not in AVAILABLE_CONF and not _is_exempt():
            text = f"Configuration {key} is not available. SQLSTATE: 42K0I"
            raise refusal("CONFIG_NOT_AVAILABLE", text)
        return method(self, key, *args, **kwargs)

    return call


@contextmanager
def refusing(*, connect: bool) -> Iterator[None]:
    """In all sessions of this process, refuse the calls that serverless compute refuses."""
    kind = "pyspark.sql.connect." if connect else "pyspark.sql."
    conf = import_module(kind + "conf")
    frames = _frames(connect)
    catalog = import_module(kind + "catalog").Catalog
    with pytest.MonkeyPatch.context() as patch:
        configuration = conf.RuntimeConf if connect else conf.RuntimeConfig
        for name in ("get", "set", "unset"):
            patch.setattr(configuration, name, _guarded(getattr(configuration, name)))
        if not connect:
            session = import_module("pyspark.sql").SparkSession
            for owner, names in ((session, _SESSION), (frames, _FRAME)):
                for name in names:
                    attribute = _Attribute(name, vars(owner).get(name))
                    patch.setattr(owner, name, attribute, raising=False)
        for name in ("cache", "persist", "unpersist"):
            patch.setattr(frames, name, _not_supported("PERSIST TABLE"))
        for name in ("cacheTable", "uncacheTable", "clearCache", "isCached"):
            patch.setattr(catalog, name, _not_supported("CACHE TABLE"))
        yield


@contextmanager
def without_python_on_executors(*, connect: bool) -> Iterator[None]:
    """Within a block, refuse to run Python functions on executors."""
    frames = _frames(connect)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("mapInArrow", "mapInPandas"):
            patch.setattr(frames, name, _not_supported(f"DataFrame.{name}"), raising=False)
        yield


@contextmanager
def lifted() -> Iterator[None]:
    """Within a block, let tests (but not mdstorm) make refused calls to inspect the JVM."""
    _exempt.add("tests")
    try:
        yield
    finally:
        _exempt.discard("tests")


def _frames(connect: bool) -> Any:
    """Return the DataFrame class whose methods users call."""
    if connect:
        return import_module("pyspark.sql.connect.dataframe").DataFrame
    try:
        return import_module("pyspark.sql.classic.dataframe").DataFrame
    except ModuleNotFoundError:  # PySpark 3.5 has no such module
        return import_module("pyspark.sql.dataframe").DataFrame
