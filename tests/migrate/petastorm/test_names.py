"""The tables of Petastorm names match mdstorm's modules."""

import ast
import importlib
import importlib.util

import pytest
from tests.migrate.checks import each

from mdstorm_migrate.petastorm.absent import SECTIONS, is_unknown, section_of
from mdstorm_migrate.petastorm.names import (
    CONF_KEY,
    HOMES,
    NEW_CONF_KEY,
    PUBLIC,
    RENAMED,
    missing,
    renamed,
)
from mdstorm_migrate.python.scopes import analyse


@pytest.mark.parametrize("path", sorted(PUBLIC))
def test_public_names_in_table_exist_in_mdstorm(path: str) -> None:
    assert sorted(PUBLIC[path] - _names_of(renamed(path))) == []


def _names_of(path: str) -> set[str]:
    """Return a module's names; modules that need a framework are parsed instead of imported."""
    if path not in ("mdstorm.pytorch", "mdstorm.tf_utils"):
        module = importlib.import_module(path)
        return {*dir(module), "__version__"}
    spec = importlib.util.find_spec(path)
    assert spec is not None
    assert spec.origin is not None
    with open(spec.origin, encoding="utf-8") as file:
        return set(analyse(ast.parse(file.read())).module.bindings)


def test_configuration_keys_match_mdstorm() -> None:
    cache_dir = importlib.import_module("mdstorm._spark.copies")
    assert (cache_dir.PETASTORM_CONF, cache_dir.MDSTORM_CONF) == (CONF_KEY, NEW_CONF_KEY)


def test_modules_with_moved_names_match_mdstorm() -> None:
    elsewhere = importlib.import_module("mdstorm._petastorm_names").ELSEWHERE
    assert {renamed(module) for module in HOMES} == {f"mdstorm.{module}" for module in elsewhere}
    for module, names in HOMES.items():
        ours = elsewhere[module.removeprefix("petastorm.")]
        assert {name: renamed(home) for name, home in names.items()} == {
            name: f"mdstorm.{home}" for name, home in ours.items()
        }
    for module, names in HOMES.items():
        assert not names.keys() & PUBLIC[module]
        for name, home in names.items():
            assert name in PUBLIC[home]
    for (module, _), name in RENAMED.items():
        assert name in PUBLIC[module]


@each(
    ("petastorm", None),
    ("petastorm.spark.make_spark_converter.cache", None),
    ("petastorm.workers_pool.thread_pool.ThreadPool", "petastorm.workers_pool"),
    ("petastorm.hdfs.namenode.HdfsConnector", "petastorm.hdfs"),
    ("petastorm.spark._x", "petastorm.spark._x"),
    ("petastorm.reader.NullCache", "petastorm.reader.NullCache"),
    ("petastorm.reader.__name__", None),
)
def test_missing_returns_shortest_prefix_that_mdstorm_does_not_have(
    path: str, expected: str | None
) -> None:
    assert missing(path) == expected


def test_sections_about_missing_names_match_mdstorm() -> None:
    sections = importlib.import_module("mdstorm._petastorm_names").SECTIONS
    assert {section: frozenset(names) for section, names in sections.items()} == SECTIONS
    page = "docs/differences.md"
    assert section_of("petastorm.hdfs.namenode") == f"{page}#name-nodes-of-hdfs"
    assert section_of("petastorm.hdfs_of_ours") is None


def test_only_names_that_petastorm_does_not_have_are_unknown() -> None:
    absent = [f"petastorm.{name}" for names in SECTIONS.values() for name in names]
    assert all(missing(name) == name for name in absent)
    assert not any(map(is_unknown, [*absent, "petastorm.unischema.np", "petastorm.__author__"]))
    for path in ("petastorm.gone", "petastorm.tf_utils.TF_TENSOR_VERSION", "petastorm.spark.x"):
        assert is_unknown(path)
