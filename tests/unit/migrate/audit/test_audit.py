"""The audit: which features are used where, and how much work remains."""

import json
from collections import Counter
from functools import partial
from pathlib import Path

import jsonschema
import pytest
from tests.kit.migrating import each, invoke, schema_of, write_files

from mdstorm_migrate.audit import Audit, FeatureUse, audit
from mdstorm_migrate.base.needs import NOTHING
from mdstorm_migrate.cli.audit import audit as command
from mdstorm_migrate.petastorm.names import CONF_KEY, PUBLIC
from mdstorm_migrate.report.text import duration, names_of
from mdstorm_migrate.run.discover import discover
from mdstorm_migrate.run.migration import FileMigration
from mdstorm_migrate.run.outcome import Settings
from mdstorm_migrate.sources import find_source

BATCH, LOADERS = "Readers of any Parquet files", "PyTorch loaders over readers"
EXACT = "from petastorm import make_reader\nmake_reader(url)\nmake_reader(url)\n"
REVIEW = "from petastorm.pytorch import BatchDataLoader\n"
MANUAL = "from petastorm.unischema import _fullmatch\nfrom petastorm.codecs import ScalarCodec\n"
BROKEN = "import petastorm\nprint 'x'\n"
NOTED = "converter.make_torch_dataloader(**options)  # petastorm\n"
NONE = "from mdstorm import make_reader  # once petastorm\n"

run = partial(invoke, command)


def uses(text: str, name: str = "a.py") -> dict[tuple[str, str], int]:
    path, data = Path(name), text.encode()
    file = FileMigration(data, path, find_source(path, data), Settings())
    return dict(file.propose(NOTHING).features)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    write_files(tmp_path, {"exact.py": EXACT, "review.py": REVIEW, "manual.py": MANUAL})
    write_files(tmp_path, {"broken.py": BROKEN, "none.py": NONE, "noted.py": NOTED})
    write_files(tmp_path, {"requirements.txt": "petastorm[torch]\npyspark\n"})
    return tmp_path


def audit_of(root: Path) -> Audit:
    return audit(discover([root]), Settings())


@each(
    ("import petastorm\npetastorm.make_batch_reader(u)\n", BATCH, "make_batch_reader"),
    ("from petastorm.reader import make_batch_reader as m\nm(u)\n", BATCH, "make_batch_reader"),
    ("import petastorm.predicates as p\np.in_set(a, b)\n", "Predicates", "in_set"),
    ("from petastorm.unischema import *\n", "Unischema", "petastorm.unischema"),
    ("from petastorm.hdfs import x\n", "Petastorm's internals", "petastorm.hdfs"),
    (REVIEW, LOADERS, "BatchedDataLoader"),
    ("patch('petastorm.pytorch.DataLoader')\n", LOADERS, "DataLoader"),
    (f"conf.set({CONF_KEY!r}, u)\n", "Parent cache directory", CONF_KEY),
)
def test_use_is_counted_for_any_form_of_import(text: str, feature: str, name: str) -> None:
    assert uses(text) == {(feature, name): 1}


def test_converter_methods_are_counted_by_name() -> None:
    text = (
        "from petastorm.spark import SparkDatasetConverter as S, make_spark_converter\n"
        "spark.conf.set(S.PARENT_CACHE_DIR_URL_CONF, u)\n"
        "c = make_spark_converter(df)\nc.make_torch_dataloader()\nc.make_tf_dataset()\n"
    )
    assert uses(text) == {
        ("Parent cache directory", "PARENT_CACHE_DIR_URL_CONF"): 1,
        ("Spark converter", "make_spark_converter"): 1,
        ("Spark converter: PyTorch loaders", "SparkDatasetConverter.make_torch_dataloader"): 1,
        ("Spark converter: TensorFlow datasets", "SparkDatasetConverter.make_tf_dataset"): 1,
    }


@each(
    "petastorm = Engine()\npetastorm.spark.make_spark_converter(df)\n",
    "backend = 'petastorm'\n",
    "from .petastorm import make_reader\n",
    "x = 1  # petastorm\n",
)
def test_names_that_resemble_petastorm_are_not_counted(text: str) -> None:
    assert uses(text) == {}


def test_requirements_and_dockerfiles_are_counted_as_separate_features() -> None:
    assert uses("petastorm\n", "requirements.txt") == {("Requirements", "requirements"): 1}
    assert uses("RUN pip install petastorm\n", "Dockerfile") == {("Install commands", "docker"): 1}


def test_prose_in_notebook_is_not_counted() -> None:
    cell = {"cell_type": "markdown", "metadata": {}, "source": "petastorm"}
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    assert uses(json.dumps(notebook), "a.ipynb") == {}
    assert uses("petastorm\n", "a.md") == {("Documentation", "markdown"): 1}


def test_each_public_name_belongs_to_a_feature() -> None:
    for module, names in PUBLIC.items():
        for name in names - {"__version__"}:
            ((feature, known),) = uses(f"from {module} import {name}\n")
            assert feature not in ("Other", "Petastorm's internals")
            assert known == name


def test_hardest_finding_in_file_determines_its_effort(repository: Path) -> None:
    found = audit_of(repository)
    assert {file.path.name: file.effort for file in found.files} == {
        "broken.py": "problem",
        "exact.py": "exact",
        "manual.py": "manual",
        "noted.py": "none",
        "requirements.txt": "exact",
        "review.py": "review",
    }
    assert found.efforts()["problem"] == 1
    assert found.minutes() == 15 + 20 + 5
    (repository / "review.py").write_text(REVIEW * 2)  # twice the findings, with the same cause
    assert audit_of(repository).minutes() == found.minutes()


def test_audit_counts_files_and_uses_of_each_feature(repository: Path) -> None:
    (repository / "more.py").write_text(EXACT)
    first = audit_of(repository).features()[0]
    assert (first.feature, first.files, first.uses) == ("Readers of Petastorm datasets", 2, 4)


def test_four_most_used_names_of_a_feature_are_shown() -> None:
    four = Counter(e=1, b=1200, d=2, c=2)
    assert names_of(FeatureUse("Codecs", 1, 1, four)) == "b 1,200, c 2, d 2, e 1"
    five = four + Counter(a=1)
    assert names_of(FeatureUse("Codecs", 1, 1, five)) == "b 1,200, c 2, d 2, a 1, …"


def test_text_audit_report_lists_features_and_files_to_review(repository: Path) -> None:
    before = {path: path.read_bytes() for path in repository.iterdir()}
    result = run(repository)
    assert result.exit_code == 3
    assert {path: path.read_bytes() for path in repository.iterdir()} == before
    rows = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "Readers of Petastorm datasets 1 2 make_reader 2" in rows
    assert "    1  need manual review\n" in result.stdout
    assert f"  {repository}/broken.py: line 2: not Python 3" in result.stdout
    assert f"  {repository}/manual.py: PM107 manual\n" in result.stdout
    assert f"  {repository}/review.py: PM106 review\n" in result.stdout
    assert "manual work left: about 40 minutes\n(a rough estimate" in result.stdout
    assert all(line == line.rstrip() for line in result.stdout.splitlines())
    (repository / "broken.py").unlink()
    assert run(repository).exit_code == 0


def test_json_audit_report_matches_schema(repository: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(schema_of("audit"))
    found = json.loads(run("--format", "json", repository).stdout)
    jsonschema.validate(found, schema_of("audit"))
    file = next(one for one in found["files"] if one["path"].endswith("manual.py"))
    assert file["rules"] == {"PM101": 1, "PM107": 1}
    assert file["features"][0] == {"feature": "Codecs", "name": "ScalarCodec", "uses": 1}


def test_audit_reports_are_written_to_files(
    repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("reports")
    result = run("--report", folder / "a.txt", "--report", folder / "a.json", repository)
    assert result.stdout == ""
    assert "names used" in (folder / "a.txt").read_text()
    assert json.loads((folder / "a.json").read_text())["efforts"]["problem"] == 1


@each("a.sarif", "a", "gone/a.json")
def test_invalid_report_name_exits_with_2(name: str, repository: Path) -> None:
    assert run("--report", repository / name, repository).exit_code == 2


def test_audit_without_petastorm_reports_no_use(tmp_path: Path) -> None:
    assert run(tmp_path).stdout == "no scanned file uses Petastorm\n"


@pytest.mark.long
def test_audit_is_the_same_for_any_number_of_jobs(tmp_path: Path) -> None:
    for number in range(450):
        text = (EXACT, MANUAL, BROKEN, NONE, "x = 1\n")[number % 5]
        (tmp_path / f"m{number}.py").write_text(text)
    assert run("-j", 1, tmp_path).stdout == run("-j", 2, tmp_path).stdout


def test_estimates_are_rounded_to_minutes_or_hours() -> None:
    expected = ["0 minutes", "40 minutes", "1.6 hours", "100 hours"]
    assert [duration(one) for one in (0, 40, 95, 6000)] == expected


@each(
    (NOTED, [0, 0, 0]),
    (EXACT, [0, 0, 1]),
    (REVIEW, [0, 1, 1]),
    (MANUAL, [1, 1, 1]),
    ("# TODO(mdstorm): PM113: mind this\nf()\n", [1, 1, 1]),
    (BROKEN, [3, 3, 3]),
)
def test_fail_on_option_sets_exit_code(text: str, codes: list[int], tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(text)
    asked = ("manual", "review", "any")
    assert [run("--fail-on", what, tmp_path).exit_code for what in asked] == codes
    assert run(tmp_path).exit_code == (3 if text == BROKEN else 0)
