"""Parts of one line of a shell, which move together or wait together."""

from __future__ import annotations

import pytest
from tests.migrate.checks import check_noop, check_rewrite

from mdstorm_migrate.api import migrate


@pytest.mark.parametrize(
    "code",
    [
        "import petastorm",
        "import petastorm; print(petastorm.__version__)",
        "import petastorm,os;print(os.path.dirname(petastorm.__file__))",
        "import torch, petastorm.pytorch as p; print('ok')",
        "from petastorm import make_reader, TransformSpec",
        "import petastorm; from petastorm.codecs import ScalarCodec",
    ],
)
def test_plain_imports_move_with_the_install_of_their_line(code: str) -> None:
    for text in (
        f'pip install petastorm && python -c "{code}"\n',
        f'pip install torch petastorm \\\n  && python3 -c "{code}"\n',
    ):
        check_rewrite(text, text.replace("petastorm", "mdstorm"), "i.sh")
        check_rewrite(
            f"FROM a\nRUN {text}",
            f"FROM a\nRUN {text}".replace("petastorm", "mdstorm"),
            "Dockerfile",
        )
        cell = f"# Databricks notebook source\n# MAGIC %sh {text}" if "\\" not in text else text
        check_rewrite(
            cell, cell.replace("petastorm", "mdstorm"), "n.py" if cell != text else "i.sh"
        )


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("Makefile", "a:\n\t$(PY) -m pip install petastorm && $(PYTHON) -c 'import petastorm'\n"),
        ("ci.yml", "- run: \"pip install petastorm && python -c 'import petastorm'\"\n"),
        ("Jenkinsfile", "sh 'pip install petastorm && python -c \"import petastorm\"'\n"),
    ],
)
def test_imports_and_installs_in_files_of_other_kinds(path: str, text: str) -> None:
    result = check_rewrite(text, text.replace("petastorm", "mdstorm"), path)
    assert result.findings == ()


@pytest.mark.parametrize(
    "run",
    [
        'python -c "from petastorm.etl.x import y; y(1)"',
        'python -c "from petastorm import make_reader; make_reader(1)"',
        "python -c 'import petastorm.hdfs._x'",
        "python -c 'import petastorm as p; print(p.x())'",
        "python -m petastorm.generator",
        "python -c 'import petastorm; print(petastorm.reader)'",
    ],
)
def test_installs_wait_for_other_code_in_their_line(run: str) -> None:
    text = f"pip install petastorm && {run}\n"
    result = check_noop(text, "i.sh")
    assert sorted(found.cls for found in result.findings) == ["manual", "review"]
    assert any("waits, since" in found.message for found in result.findings)
    after = text.replace("install petastorm", "install mdstorm").replace(" &&", "\n")
    check_rewrite(text.replace(" &&", "\n"), after, "i.sh", todo=False)


@pytest.mark.parametrize(
    "text",
    [
        "pip download petastorm==0.12.1 -d w && pip install w/petastorm-0.12.1-py2.whl\n",
        "pip wheel petastorm -w w\npip install w/petastorm-0.12.1-py2.whl\n",
    ],
)
def test_what_is_brought_stays_with_what_is_installed_by_its_name(text: str) -> None:
    result = check_noop(text, "i.sh")
    assert {found.cls for found in result.findings} == {"manual"}
    assert migrate(text, path="i.sh", todo=False, unsafe=True).output == text


def test_code_beside_a_fork_stays() -> None:
    check_noop('pip install petastorm==0.12+acme && python -c "import petastorm"\n', "i.sh")
