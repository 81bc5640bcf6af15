"""The tables of Petastorm names match mdstorm's modules."""

import ast
import importlib
import importlib.util
import json
from pathlib import Path

import pytest
from tests.kit.migrating import each

from mdstorm_migrate.petastorm.absent import SECTIONS, incidental_of, is_unknown, section_of
from mdstorm_migrate.petastorm.names import (
    CONF_KEY,
    HOMES,
    NEW_SCRIPTS,
    PUBLIC,
    RENAMED,
    SCRIPTS,
    missing,
    renamed,
)
from mdstorm_migrate.python.scopes import analyse

ROOT = Path(__file__).parents[4]
#: The names that star imports of Petastorm's modules give, written by `record_names.py`.
STAR_NAMES = json.loads(Path(__file__).with_name("star_names.json").read_text())


@pytest.mark.parametrize("path", sorted(PUBLIC))
def test_public_names_in_table_exist_in_mdstorm(path: str) -> None:
    assert sorted(PUBLIC[path] - _names_of(renamed(path))) == []


def test_installed_scripts_are_those_that_migrate_renames() -> None:
    lines = (ROOT / "pyproject.toml").read_text().splitlines()
    installed = [line for line in lines if '.py" = "mdstorm.' in line]
    modules = {renamed(name): renamed(path) for name, path in SCRIPTS.items()}
    assert installed == [f'"{name}" = "{modules[name]}:main"' for name in NEW_SCRIPTS]
    assert all("main" in _names_of(modules[name]) for name in NEW_SCRIPTS)


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


def test_configuration_key_matches_mdstorm() -> None:
    converter = importlib.import_module("mdstorm.spark").SparkDatasetConverter
    assert converter.PARENT_CACHE_DIR_URL_CONF == CONF_KEY


def test_data_file_is_a_copy_of_mdstorms() -> None:
    source = ROOT / "compat/mdstorm/petastorm_names.json"
    copy = ROOT / "migrate/mdstorm_migrate/petastorm/petastorm_names.json"
    assert copy.read_bytes() == source.read_bytes(), f"run: cp {source} {copy}"


def test_moved_names_are_public_in_the_modules_that_define_them() -> None:
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


def test_section_of_missing_name_also_covers_names_in_it() -> None:
    page = "docs/differences.md"
    assert section_of("petastorm.hdfs.namenode") == f"{page}#name-nodes-of-hdfs"
    assert section_of("petastorm.hdfs_of_ours") is None


def test_only_names_that_petastorm_does_not_have_are_unknown() -> None:
    absent = [f"petastorm.{name}" for names in SECTIONS.values() for name in names]
    assert all(missing(name) == name for name in absent)
    assert not any(map(is_unknown, [*absent, "petastorm.unischema.np", "petastorm.__author__"]))
    for path in ("petastorm.gone", "petastorm.tf_utils.TF_TENSOR_VERSION", "petastorm.spark.x"):
        assert is_unknown(path)


@pytest.mark.parametrize("module", sorted(PUBLIC.keys() & STAR_NAMES.keys()))
def test_names_of_star_import_are_those_that_petastorm_gives(module: str) -> None:
    given = set(STAR_NAMES[module].split())
    assert sorted(given - PUBLIC[module] - incidental_of(module)) == []
    assert sorted(incidental_of(module) - HOMES.get(module, {}).keys() - given) == []
