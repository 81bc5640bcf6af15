"""Commands that need Petastorm's installed files, and texts that only name these."""

from __future__ import annotations

import pytest
from tests.migrate.checks import check_silence

from mdstorm_migrate.api import migrate

_FILE = "/v/site-packages/petastorm/fs_utils.py"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("i.sh", f"sed -i 's/a;b/c/' {_FILE}\n"),
        ("i.sh", "git apply --directory=/v/site-packages/petastorm a.diff\n"),
        ("i.sh", "python -m compileall /v/site-packages/petastorm\n"),
        ("i.sh", f"[ -f {_FILE} ] || exit 1\n"),
        ("i.sh", f"cat fix.py >> {_FILE}\n"),
        ("i.sh", "find /v/site-packages/petastorm -name '*.pyc' -delete\n"),
        ("i.sh", "cd /v/site-packages && sed -i s/a/b/ petastorm/fs_utils.py\n"),
        ("i.sh", "P=/v/site-packages/petastorm\nsed -i s/a/b/ $P/fs_utils.py\n"),
        ("i.sh", "SITE=/v/site-packages\nls\nsed -i s/a/b/ $SITE/petastorm/fs_utils.py\n"),
        ("Makefile", "SITE := /v/site-packages\na:\n\tcp x.py $(SITE)/petastorm/\n"),
        ("Dockerfile", 'FROM a\nENV S=/v/site-packages\nRUN cp x.py "${S}"/petastorm/\n'),
        ("Dockerfile", f'FROM a\nRUN ["sed", "-i", "s/a/b/", "{_FILE}"]\n'),
        ("ci.yml", f"steps:\n- run: |\n    tar xf a.tar\n    mv x.py {_FILE}\n"),
        ("compose.yml", f"volumes:\n- ./x.py:{_FILE}\n"),
        ("play.yml", f"- copy:\n    src: x.py\n    dest: {_FILE}\n"),
        ("Jenkinsfile", f'sh "cp x.py {_FILE}"\n'),
        ("tox.ini", f"[testenv]\ncommands = cp x.py {_FILE}\n"),
        ("a.py", f"subprocess.run(['sed', '-i', 's/a/b/', '{_FILE}'])\n"),
        ("a.py", f"os.system('patch {_FILE} < a.patch')\n"),
    ],
)
def test_commands_that_need_installed_files_are_for_people(path: str, text: str) -> None:
    (found,) = [one for one in migrate(text, path=path, todo=False).findings if one.cls != "note"]
    assert (found.cls, "installed files" in found.message) == ("manual", True)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (".coveragerc", "[run]\nomit = */site-packages/petastorm/*\n"),
        ("setup.cfg", "[flake8]\nexclude = site-packages/petastorm/\n"),
        ("pyproject.toml", '[tool.coverage.run]\nomit = ["*/site-packages/petastorm/*"]\n'),
        ("pyproject.toml", '[tool.mypy]\nexclude = "site-packages/petastorm/"\n'),
        ("pyproject.toml", '[tool.pyright]\nexclude = ["**/site-packages/petastorm/**"]\n'),
        ("codecov.yml", 'ignore:\n  - "**/site-packages/petastorm/**"\n'),
        (".dockerignore", "**/site-packages/petastorm/\n"),
    ],
)
def test_settings_that_name_installed_files_are_notes(path: str, text: str) -> None:
    assert {one.cls for one in migrate(text, path=path).findings} == {"note"}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("notes.txt", f'  File "{_FILE}", line 3, in make_reader\n'),
        ("notes.txt", f"We had to cp x.py to {_FILE} once.\n"),
        ("run.sh", f'echo "see {_FILE} for the reason; cp it"\n'),
        ("run.sh", "ls /v/site-packages/petastorm || true\n"),
        ("run.sh", "SITE=/v/site-packages\nls $SITE/petastorm\n"),
        ("Dockerfile", "FROM a\nRUN ls -l /v/site-packages/petastorm\n"),
        ("ci.yml", f"- name: patch {_FILE}\n  run: make\n"),
        ("a.py", f"log.info('raised in {_FILE}, line 3')\n"),
        ("a.py", f"print('cp x.py {_FILE}')\n"),
        ("a.py", "cov = Coverage(omit=['*/site-packages/petastorm/*'])\n"),
    ],
)
def test_what_only_names_installed_files_is_left_in_peace(path: str, text: str) -> None:
    check_silence(text, path)
