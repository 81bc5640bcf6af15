"""Uses of Petastorm in commands, definitions and code that no rule edits."""

from __future__ import annotations

import json

import pytest
from tests.migrate.checks import check_finding, check_noop, check_rewrite, check_silence

from mdstorm_migrate.api import migrate


@pytest.mark.parametrize(
    ("path", "text", "rule"),
    [
        ("Dockerfile", "FROM a\nCOPY --from=b /usr/lib/site-packages/petastorm /opt/x\n", "PM406"),
        ("i.sh", "sed -i s/a/b/ /x/dist-packages/petastorm/fs_utils.py\n", "PM406"),
        ("ci.yml", "- run: rm -r /x/site-packages/petastorm\n", "PM409"),
        ("Jenkinsfile", "sh 'cp -r a /x/site-packages/petastorm'\n", "PM413"),
    ],
)
def test_files_of_an_installed_petastorm_are_told(path: str, text: str, rule: str) -> None:
    (found,) = migrate(text, path=path, todo=False).findings
    assert (found.rule, found.cls) == (rule, "manual")
    assert "installed files" in found.message
    check_silence(text.replace("petastorm", "petastorm_tools"), path)
    check_silence(f"# {text.splitlines()[-1]}\n", "i.sh")


@pytest.mark.parametrize(
    "text",
    [
        "for p in petastorm torch; do pip install $p; done\n",
        "for p in petastorm \\\n  torch; do\n  pip install ${p}\ndone\n",
        "echo petastorm torch | xargs -n 1 pip install\n",
    ],
)
def test_packages_that_a_command_is_given_are_told(text: str) -> None:
    check_finding(text, "PM406", "petastorm", "i.sh")
    check_noop(text, "i.sh")
    check_silence(text.replace("pip install", "echo"), "i.sh")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("job.slurm", "#!/bin/bash\nmodule load petastorm/0.12\n"),
        ("job.sh", "module purge && module load cuda/12 petastorm\n"),
        ("job.sbatch", "#!/bin/bash -l\nml petastorm/0.12 gcc\n"),
        ("ci.yml", "script:\n  - module add petastorm\n"),
    ],
)
def test_modules_of_the_environment_are_told(path: str, text: str) -> None:
    (found,) = [one for one in check_noop(text, path).findings if one.rule != "PM001"]
    assert (found.cls, "a module of the environment" in found.message) == ("manual", True)
    check_silence(text.replace("petastorm", "petastorm-tools"), path)
    check_silence(text.replace("m", "# m", 1), "job.sh")
    check_silence(text.replace("module", "echo module").replace("ml ", "echo ml "), path)


def test_a_folder_on_the_path_of_modules_is_a_note() -> None:
    result = check_noop("export PYTHONPATH=/a:/opt/petastorm:$PYTHONPATH\n", "i.sh")
    assert [(one.rule, one.cls) for one in result.findings] == [("PM406", "note")]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("databricks.yml", 'variables:\n  petastorm_version: {default: "0.12.1"}\n'),
        ("vars.yml", "PETASTORM_VERSION: 0.12.1\n"),
        (".env", "PETASTORM_VERSION=0.12.1\n"),
    ],
)
def test_a_version_that_other_files_use_is_a_note(path: str, text: str) -> None:
    (found,) = migrate(text, path=path).findings
    assert (found.cls, "chooses a version of Petastorm" in found.message) == ("note", True)


def test_the_version_of_a_requirement_is_told_once() -> None:
    text = "ENV PETASTORM_VERSION=0.9\nRUN pip install petastorm==$PETASTORM_VERSION\n"
    after = text.replace("petastorm==$PETASTORM_VERSION", "mdstorm")
    assert len(check_rewrite(text, after, "Dockerfile").findings) == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("meta.yaml", "test:\n  imports: [petastorm.unischema, x]\n"),
        ("meta.yaml", "test:\n  imports:\n    - x\n    - petastorm.unischema\n"),
        ("recipe.yaml", "tests:\n  - python:\n      imports:\n        - petastorm.unischema\n"),
    ],
)
def test_what_the_tests_of_a_recipe_import_is_told(path: str, text: str) -> None:
    rule = "PM404" if path == "meta.yaml" else "PM409"
    check_finding(text, rule, "petastorm.unischema", path)
    check_noop(text, path)


def test_commands_of_the_tests_of_a_recipe_are_told() -> None:
    text = 'test:\n  commands:\n    - python -c "import petastorm"\n'
    check_finding(text, "PM404", "import petastorm", "meta.yaml")
    recipe = f"package:\n  name: a\nrequirements:\n  run: [python]\n{text}"
    check_finding(recipe, "PM404", "import petastorm", "a_meta.yaml")
    check_noop(recipe, "a_meta.yaml")
    imports = recipe.replace("commands:", "imports:").replace(
        'python -c "import petastorm"', "petastorm"
    )
    (found,) = migrate(imports, path="a_meta.yaml", todo=False).findings
    assert found.message == "a test of this recipe imports Petastorm"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("fast.pyx", "cimport numpy\nimport petastorm\n"),
        ("fast.pxd", "from petastorm.x cimport y\n"),
        ("train.py.j2", "{% if a %}\nfrom petastorm.pytorch import {{ loader }}\n{% endif %}\n"),
        ("train.py.tmpl", "from petastorm import make_reader\n"),
    ],
)
def test_imports_in_cython_and_in_templates_are_told(path: str, text: str) -> None:
    check_finding(text, "PM413", "petastorm", path)
    check_noop(text, path)


@pytest.mark.parametrize(("path", "rule"), [("note.json", "PM409"), ("note.zpln", "PM413")])
def test_paragraphs_of_zeppelin_are_told_and_its_labels_are_not(path: str, rule: str) -> None:
    paragraphs = [
        "%pyspark\nfrom petastorm import make_reader\nprint(1)",
        "%sh\npip install petastorm",
        "%md\nAbout petastorm.",
    ]
    note = {"paragraphs": [{"text": text} for text in paragraphs], "name": "petastorm"}
    result = check_noop(json.dumps(note), path)
    told = [one for one in result.findings if one.rule == rule]
    assert [one.message.split()[5] for one in told] == ["imports", "installs"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("Jenkinsfile", "stage('petastorm') { sh 'pip install x' }\n"),
        ("BUILD", 'py_library(name="petastorm", deps=["//require:x"])\n'),
    ],
)
def test_labels_require_nothing(path: str, text: str) -> None:
    check_silence(text, path)
