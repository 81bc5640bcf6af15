"""PM407: install magics in notebooks."""

from tests.kit.migrating import check_rewrite, each

from mdstorm_migrate.api import migrate

NOTEBOOK = "# Databricks notebook source\n# MAGIC {}\n\n# COMMAND ----------\n\n{}\n"
CODE = "from {}.pytorch import DataLoader"


@each(
    ("%pip install {}", '"mdstorm[torch]"'),
    ("!pip install -q {}", '"mdstorm[torch]"'),
    ("%sh pip install {}", '"mdstorm[torch]"'),
    ("%pip install \\\n# MAGIC   {} \\\n# MAGIC   x", '"mdstorm[torch]"'),
    ("%pip install {} torch==2.2", "mdstorm"),  # the command already installs torch
)
def test_pip_magic_installs_extras_that_code_uses(magic: str, needed: str) -> None:
    before = NOTEBOOK.format(magic.format("petastorm==0.12.1"), CODE.format("petastorm"))
    after = NOTEBOOK.format(magic.format(needed), CODE.format("mdstorm"))
    check_rewrite(before, after, "notebook.py")


def test_pip_magic_keeps_petastorm_while_code_imports_it() -> None:
    code = "import {}\nfrom petastorm.reader_impl import thing_that_is_private\n"
    before = NOTEBOOK.format("%pip install petastorm==0.12.1", code.format("petastorm"))
    text = before.replace("import petastorm\n", "import mdstorm\n")
    after = text.replace("petastorm==0.12.1", "mdstorm petastorm==0.12.1")
    check_rewrite(text, after, "notebook.py", todo=False)


def test_search_for_petastorm_in_magic_is_found_once() -> None:
    text = NOTEBOOK.format("%pip list | grep petastorm", CODE.format("petastorm"))
    found = [one for one in migrate(text, path="notebook.py").findings if one.cls == "manual"]
    assert [one.rule for one in found] == ["PM407"]
