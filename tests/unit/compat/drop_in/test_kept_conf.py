"""Programs can set Petastorm's conf keys even if the Spark session rejects them."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.conftest import IS_CONNECT
from tests.kit import refusing

from mdstorm._drop_in import keep_refused_confs
from mdstorm.spark import SparkDatasetConverter, make_spark_converter

KEY = SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF


class RuntimeConfig:
    """A configuration that accepts only the keys in `taken` and raises `error` for all others."""

    def __init__(self, error: Exception, *taken: str) -> None:
        self._error, self._taken = error, taken
        self._values: dict[str, str] = {}

    def _check(self, key: str) -> None:
        if key not in self._taken:
            raise self._error

    def set(self, key: str, value: Any) -> None:
        self._check(key)
        self._values[key] = value

    def get(self, key: str, default: Any = None) -> Any:
        self._check(key)
        return self._values.get(key, default)

    def unset(self, key: str) -> None:
        self._check(key)
        self._values.pop(key, None)


@pytest.fixture
def patched() -> Iterator[type[RuntimeConfig]]:
    """A configuration class. Until the test ends, mdstorm keeps values that the class rejects."""
    module = ModuleType("pyspark.sql.conf")
    kind = type("RuntimeConfig", (RuntimeConfig,), dict(vars(RuntimeConfig)))
    module.RuntimeConfig = kind  # type: ignore[attr-defined]
    keep_refused_confs(module)
    keep_refused_confs(module)
    yield kind
    kind(OSError(), KEY).set(KEY, "")  # mdstorm forgets a value once a session accepts its key


def refused(key: str = KEY) -> Exception:
    return refusing.refusal("CONFIG_NOT_AVAILABLE", f"Configuration {key} is not available.")


def test_conf_that_session_rejects_is_kept_by_mdstorm(patched: type[RuntimeConfig]) -> None:
    conf = patched(refused())
    conf.set(KEY, "file:///a")
    assert conf.get(KEY) == conf.get(KEY, None) == "file:///a"
    conf.unset(KEY)
    with pytest.raises(Exception, match="CONFIG_NOT_AVAILABLE"):
        conf.get(KEY)


def test_conf_that_a_session_accepts_is_not_kept(patched: type[RuntimeConfig]) -> None:
    patched(refused()).set(KEY, "kept")
    conf = patched(refused(), KEY)
    conf.set(KEY, "taken")
    assert conf.get(KEY) == "taken"
    with pytest.raises(Exception, match="CONFIG_NOT_AVAILABLE"):
        patched(refused()).get(KEY)  # mdstorm has forgotten the value
    conf.unset(KEY)
    assert conf.get(KEY) is None


def test_unrelated_conf_error_is_raised(patched: type[RuntimeConfig]) -> None:
    other = "spark.sql.warehouse.dir"
    for key, error in ((other, refused(other)), (KEY, OSError("closed"))):
        with pytest.raises(type(error)) as caught:
            patched(error).set(key, "x")
        assert caught.value is error
        with pytest.raises(type(error)):
            patched(error).get(key)


@pytest.fixture
def refusing_session(spark: Any) -> Iterator[Any]:
    with refusing.refusing(connect=IS_CONNECT):
        keep_refused_confs(import_module(f"pyspark.sql.{'connect.' if IS_CONNECT else ''}conf"))
        yield spark
        spark.conf.unset(KEY)


def test_legacy_program_converts_on_session_that_rejects_its_conf(
    refusing_session: Any, tmp_path: Path
) -> None:
    refusing_session.conf.set(KEY, tmp_path.as_uri())
    converter = make_spark_converter(refusing_session.range(10))
    assert converter.cache_dir_url.startswith(tmp_path.as_uri())
    with converter.make_torch_dataloader(batch_size=10, num_epochs=1) as loader:
        assert sorted(next(iter(loader))["id"].tolist()) == list(range(10))
    converter.delete()
