"""Jupyter notebooks."""

import json
from typing import Any

import pytest
from tests.kit.migrating import check_moves, check_noop, check_rewrite, each

from mdstorm_migrate.api import Result, migrate
from mdstorm_migrate.sources.json_strings import JsonStrings


def notebook(*sources: Any, language: str = "python", **metadata: Any) -> dict[str, Any]:
    return {
        "nbformat": 4,
        "cells": [
            {"cell_type": "markdown", "source": ["Acorns\n", "of oaks"]},
            *(
                {
                    "cell_type": "code",
                    "id": f"cell-{number}",
                    "source": source,
                    "outputs": [{"text": ["import petastorm\n"], "source": "petastorm"}],
                    "execution_count": None,
                }
                for number, source in enumerate(sources)
            ),
        ],
        "metadata": {"language_info": {"name": language}, "petastorm": "petastorm", **metadata},
    }


def check_cells(*cells: Any, **options: Any) -> Result:
    """Assert that "petastorm" in cells becomes "mdstorm"."""
    moved = json.loads(json.dumps(cells).replace("petastorm", "mdstorm"))
    before, after = json.dumps(notebook(*cells)), json.dumps(notebook(*moved))
    return check_rewrite(before, after, "a.ipynb", **options)


OTHER_LANGUAGES = ["%%sql", "%sql", "%%R", "%scala", "%md", "%%html", "%%writefile x"]
STYLES = [
    {"indent": 1},
    {"indent": 4, "ensure_ascii": False, "sort_keys": True},
    {"indent": 2, "separators": (" , ", " : ")},
    {"separators": (",", ":")},
    {},
]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("end", ["", "\n", "\r\n\n"])
def test_notebook_bytes_outside_cell_sources_are_unchanged(style: dict[str, Any], end: str) -> None:
    lines = [
        "# é😀 \u2028\t\"'\\\n",
        "from petastorm.spark import \\\n",
        "  make_spark_converter\n",
    ]
    after = [line.replace("petastorm", "mdstorm") for line in lines]
    joined, moved = "".join(lines), "".join(after)
    check_rewrite(
        json.dumps(notebook(lines, joined, [joined], [], ""), **style) + end,
        json.dumps(notebook(after, moved, [moved], [], ""), **style) + end,
        "a.ipynb",
    )


@each(*STYLES)
def test_inserted_lines_become_items_in_source_list(style: dict[str, Any]) -> None:
    lines = ["x = 'é'\n", "from petastorm.reader import (\n", "    Reader,\n", "    Ventilator)"]
    after = [
        "x = 'é'\n",
        "from petastorm.reader import (\n",
        "    Ventilator)\n",
        "from mdstorm.reader import (\n",
        "    Reader)",
    ]
    text = json.dumps(notebook(lines, "x\n", "".join(lines)), **style)
    expected = json.dumps(notebook(after, "x\n", "".join(after)), **style)
    check_rewrite(text, expected, "a.ipynb", todo=False, unsafe=True)


@each((0, 2, "b\\n"), (0, 1, 'b\\n", "'), (2, 2, 'b\\n", "'))
def test_newline_in_edit_ends_json_string(start: int, stop: int, spelt: str) -> None:
    strings = JsonStrings(r'["a\n", "c"]', [(2, 5), (9, 10)], is_list=True)
    assert strings.spell("b\n", start, stop) == spelt


@each("%%time\n", "%%writefile a.py\n")
def test_todo_comment_becomes_separate_line_of_its_cell(magic: str) -> None:
    lines = [magic, "from petastorm.reader import Ventilator"]
    result = migrate(json.dumps(notebook(lines), indent=1), path="a.ipynb")
    first, todo, last = json.loads(result.output)["cells"][1]["source"]
    assert [first, last] == lines
    assert todo.startswith("# TODO(mdstorm): PM107: ")
    assert todo.endswith("\n")
    assert not migrate(result.output, path="a.ipynb").changed


@each(
    "%matplotlib inline",
    "!pip install -q \\\n   numpy",
    "  ! ls",
    "files = !ls *.py",
    "value, b = %timeit -o f()",
    "len?",
    "?len",
    "pip install numpy",
    "cd ../data",
    "ls data",
    "%run ./00_helpers",
)
def test_magics_in_cells_are_skipped(magic: str) -> None:
    before = (
        f"{magic}\nimport petastorm\nx = (1\n % 2)\ny = '''\n%pip\n'''\npetastorm.make_reader(1)"
    )
    check_cells(before)


@each(
    *((f"{first}\nselect * from petastorm !! it's", "PM100") for first in OTHER_LANGUAGES),
    ('%%configure -f\n{"conf": {"pyFiles": "hdfs:///libs/petastorm-0.9.2.zip"}}', "PM001"),
)
def test_cells_in_other_languages_and_session_settings_get_note(cell: str, rule: str) -> None:
    text = json.dumps(notebook("x = 1\n", cell))
    check_noop(text, "a.ipynb")
    (found,) = migrate(text, path="a.ipynb").findings
    assert (found.rule, found.cls, found.cell, found.line) == (rule, "note", 3, 2)


def test_name_used_in_magic_stays_bound() -> None:
    text = json.dumps(notebook("import petastorm\n", "%time r = petastorm.make_reader(url)\n"))
    output = migrate(text, path="a.ipynb").output
    assert "import mdstorm as petastorm" in output
    assert "%time r = petastorm.make_reader(url)" in output


@each("pyspark", "torchspark", "ipython")
def test_notebooks_for_python_kernels_with_other_names_are_migrated(kernel: str) -> None:
    text = json.dumps(notebook("from petastorm import make_reader\n", language=kernel))
    assert "from mdstorm import make_reader" in migrate(text, path="a.ipynb").output


def test_notebook_in_other_language_is_reported() -> None:
    result = migrate(json.dumps(notebook("library(petastorm)", language="R")), path="a.ipynb")
    assert not result.changed
    assert [found.rule for found in result.findings] == ["PM100"]


@each("x = = 3", "Das ist Prosa.", "f(\n", "read(FILL_IN path)")
def test_cell_that_is_not_python_is_skipped(broken: str) -> None:
    result = check_cells("import petastorm\n", broken, "%ls", "petastorm.make_reader(url)\n")
    assert result.findings == ()


def test_cell_of_prose_that_mentions_import_is_not_a_problem() -> None:
    text = json.dumps(notebook("import petastorm.reader\n", "Here we import petastorm to read."))
    assert migrate(text, path="a.ipynb").errors == ()


@each(
    "x = petastorm.make_reader(",
    "!! pip install petastorm==0.12\nThat was it.",
    "# TODO(mdstorm): PM107: ask\nx = = 1",
)
def test_broken_cell_with_petastorm_is_reported_and_others_migrated(broken: str) -> None:
    cells = ["from petastorm import make_reader, codecs as Codec\n", broken, "make_reader(url)\n"]
    text = json.dumps(notebook(*cells))
    result = migrate(text, path="a.ipynb")
    assert result.output == text.replace("from petastorm import make", "from mdstorm import make")
    (problem,) = result.errors
    assert problem.cell == 3
    assert str(problem).startswith("cell 3, line ")
    assert "this cell was left as it is: not Python" in str(problem)
    assert migrate(result.output, path="a.ipynb").output == result.output


def test_edits_have_line_numbers_within_the_cell() -> None:
    text = json.dumps(notebook("\n\n", ["x\n", "import petastorm; petastorm.make_reader()"]))
    edits = migrate(text, path="a.ipynb").edits
    assert [(edit.cell, edit.line, edit.column) for edit in edits] == [(3, 2, 8), (3, 2, 19)]


def test_notebook_in_format_3_is_migrated() -> None:
    code = {"cell_type": "code", "input": ["import petastorm as p"], "language": "python"}
    text = json.dumps({"worksheets": [{"cells": [code]}], "nbformat": 3, "metadata": {"name": ""}})
    check_moves(text, "a.ipynb")


@each(
    ('{"cells": ["petastorm"', "broken JSON"),
    ('["petastorm"]', "not a notebook"),
    ('{"cells": ["petastorm"]}', "not a notebook"),
    ('{"cells": [], "metadata": "petastorm"}', None),
    ("[" * 100_000 + "petastorm", "broken JSON"),
)
def test_file_that_is_not_a_notebook_is_reported(text: str, reason: str | None) -> None:
    result: Result = migrate(text, path="a.ipynb")
    assert not result.changed
    assert [reason in str(problem) for problem in result.errors] == [True] * (reason is not None)


@each("%%writefile a.py", "%%file a.py", '%%writefile -a "b/a b.py"')
def test_file_written_by_writefile_magic_has_its_own_scope(magic: str) -> None:
    cell = f"{magic}\nimport petastorm\npetastorm.make_reader(1)"
    before = notebook("petastorm = 1\n", cell, "petastorm.real")
    after = notebook("petastorm = 1\n", cell.replace("petastorm", "mdstorm"), "petastorm.real")
    check_rewrite(json.dumps(before), json.dumps(after), "a.ipynb")


def test_writefile_cell_is_unchanged_if_notebook_keeps_petastorm() -> None:
    cells = "from petastorm.reader import Ventilator", "%%writefile a.py\nimport petastorm"
    assert migrate(json.dumps(notebook(cells[1])), path="a.ipynb").changed
    assert not migrate(json.dumps(notebook(*cells)), path="a.ipynb", todo=False).changed


def test_broken_file_in_writefile_cell_is_reported() -> None:
    text = json.dumps(notebook("import petastorm as p", "%%writefile a.py\nx = 1\npetastorm.f(:"))
    result = migrate(text, path="a.ipynb")
    assert [(one.cell, one.line) for one in result.errors] == [(3, 3)]
    assert '"import mdstorm as p"' in result.output


@each(
    "%sh pip install petastorm && pip list",
    '%sh /opt/bin/pip install "petastorm"',
    "%sh cd /tmp\npip install petastorm",
    "%%sh -e\npip install petastorm",
    "%%writefile requirements.txt\nnumpy\npetastorm\n",
    # Python code under some cell magics
    *(
        f"%%{magic}\nfrom petastorm import make_reader"
        for magic in ("time", "capture out", "timeit -n 3", "local", "pyspark")
    ),
    # install commands that are commented out
    "# !pip install petastorm\nimport petastorm\npetastorm.make_reader(url)",
    "#%pip install -q petastorm x\nimport petastorm\npetastorm.make_reader(url)",
    "# pip install petastorm\nimport petastorm\npetastorm.make_reader(url)",
)
def test_cells_with_python_or_shell_magics_are_migrated(cell: str) -> None:
    check_cells(cell)


def test_markdown_cells_with_petastorm_are_reported_and_unchanged() -> None:
    def made(code: str) -> str:
        found = notebook(code)
        page = {"cell_type": "markdown", "source": "```\npip install petastorm\n```"}
        found["cells"] = [page, *found["cells"], {"cell_type": "raw", "source": ["petastorm"]}]
        return json.dumps(found, indent=1)

    before = "from petastorm import make_reader\n"
    result = check_rewrite(made(before), made(before.replace("petastorm", "mdstorm")), "a.ipynb")
    (said,) = result.findings
    assert (said.rule, said.cls, said.cell, said.line) == ("PM100", "note", 1, 2)
