"""Jupyter notebooks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.migrate.checks import check_noop, check_rewrite

from mdstorm_migrate.api import Result, migrate


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


STYLES = [
    {"indent": 1},
    {"indent": 4, "ensure_ascii": False, "sort_keys": True},
    {"indent": 2, "separators": (" , ", " : ")},
    {"separators": (",", ":")},
    {},
]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("end", ["", "\n", "\r\n\n"])
def test_all_but_the_sources_stays_byte_for_byte(style: dict[str, Any], end: str) -> None:
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


@pytest.mark.parametrize("style", STYLES)
def test_new_lines_become_lines_of_the_list(style: dict[str, Any]) -> None:
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


def test_a_comment_becomes_a_line_of_its_own_in_its_cell() -> None:
    lines = ["%%time\n", "from petastorm.reader import Ventilator"]
    result = migrate(json.dumps(notebook(lines), indent=1), path="a.ipynb")
    found = json.loads(result.output)["cells"][1]["source"]
    assert found[0] == lines[0]
    assert found[1].startswith("# TODO(mdstorm): PM107: ")
    assert found[1].endswith("\n")
    assert found[2:] == lines[1:]
    assert not migrate(result.output, path="a.ipynb").changed


def test_cells_share_their_names() -> None:
    before = ["import petastorm\n"], "petastorm.make_reader(url)", ["  petastorm.spark\n", "  x"]
    after = json.loads(json.dumps(before).replace("petastorm", "mdstorm"))
    check_rewrite(json.dumps(notebook(*before)), json.dumps(notebook(*after)), "a.ipynb")


@pytest.mark.parametrize(
    "magic",
    [
        "%matplotlib inline",
        "!pip install -q \\\n   numpy",
        "  ! ls",
        "files = !ls *.py",
        "value, b = %timeit -o f()",
        "len?",
        "?len",
        "pip install numpy",
        "ls -l",
        "%run ./00_helpers",
    ],
)
def test_magics_are_passed_over(magic: str) -> None:
    before = (
        f"{magic}\nimport petastorm\nx = (1\n % 2)\ny = '''\n%pip\n'''\npetastorm.make_reader(1)"
    )
    after = before.replace("petastorm", "mdstorm")
    check_rewrite(json.dumps(notebook(before)), json.dumps(notebook(after)), "a.ipynb")


@pytest.mark.parametrize("name", ["time", "capture out", "timeit -n 3", "local", "pyspark"])
def test_python_goes_on_below_some_magics(name: str) -> None:
    before = f"%%{name}\nfrom petastorm import make_reader"
    after = before.replace("petastorm", "mdstorm")
    check_rewrite(json.dumps(notebook(before)), json.dumps(notebook(after)), "a.ipynb")


@pytest.mark.parametrize(
    "first", ["%%sql", "%sql", "%%R", "%scala", "%md", "%%html", "%%writefile x"]
)
def test_cells_in_other_languages_are_named(first: str) -> None:
    text = json.dumps(notebook("x = 1\n", f"{first}\nselect * from petastorm !! it's"))
    check_noop(text, "a.ipynb")
    (found,) = migrate(text, path="a.ipynb").findings
    assert (found.rule, found.cls, found.cell, found.line) == ("PM100", "note", 3, 2)


def test_what_a_session_of_spark_is_given_is_read_as_settings() -> None:
    settings = '{"conf": {"spark.submit.pyFiles": "hdfs:///libs/petastorm-0.9.2.zip"}}'
    text = json.dumps(notebook("x = 1\n", f"%%configure -f\n{settings}"))
    check_noop(text, "a.ipynb")
    (found,) = migrate(text, path="a.ipynb").findings
    assert (found.rule, found.cls, found.cell, found.line) == ("PM001", "note", 3, 2)


def test_a_name_that_a_magic_uses_keeps_its_name() -> None:
    text = json.dumps(notebook("import petastorm\n", "%time r = petastorm.make_reader(url)\n"))
    output = migrate(text, path="a.ipynb").output
    assert "import mdstorm as petastorm" in output
    assert "%time r = petastorm.make_reader(url)" in output


@pytest.mark.parametrize("kernel", ["pyspark", "torchspark", "ipython"])
def test_kernels_that_are_python_by_another_name(kernel: str) -> None:
    text = json.dumps(notebook("from petastorm import make_reader\n", language=kernel))
    assert "from mdstorm import make_reader" in migrate(text, path="a.ipynb").output


def test_a_notebook_in_another_language_is_named() -> None:
    result = migrate(json.dumps(notebook("library(petastorm)", language="R")), path="a.ipynb")
    assert not result.changed
    assert [found.rule for found in result.findings] == ["PM100"]


PROSE = ["x = = 3", "Das ist Prosa.", "f(\n", "df = spark.read(FILL_IN path)", "print 'x'"]


@pytest.mark.parametrize("broken", PROSE)
def test_a_cell_that_is_not_python_is_stepped_over(broken: str) -> None:
    before = notebook("import petastorm\n", broken, "%ls", "petastorm.make_reader(url)\n")
    after = notebook("import mdstorm\n", broken, "%ls", "mdstorm.make_reader(url)\n")
    result = check_rewrite(json.dumps(before), json.dumps(after), "a.ipynb")
    assert result.findings == ()


@pytest.mark.parametrize(
    "broken",
    [
        "x = petastorm.make_reader(",
        "!! pip install petastorm==0.12\nThat was it.",
        "# TODO(mdstorm): PM107: ask\nx = = 1",
    ],
)
def test_a_broken_cell_that_uses_petastorm_is_reported_alone(broken: str) -> None:
    cells = ["from petastorm import make_reader, codecs as Codec\n", broken, "make_reader(url)\n"]
    text = json.dumps(notebook(*cells))
    result = migrate(text, path="a.ipynb")
    assert result.output == text.replace("from petastorm import make", "from mdstorm import make")
    (problem,) = result.errors
    assert problem.cell == 3
    assert str(problem).startswith("cell 3, line ")
    assert "this cell was left as it is: not Python" in str(problem)
    assert migrate(result.output, path="a.ipynb").output == result.output


def test_a_name_that_a_broken_cell_uses_keeps_its_name() -> None:
    text = json.dumps(notebook("import petastorm\npetastorm.spark\n", "petastorm.spark.x(("))
    assert "import mdstorm as petastorm\\n" in migrate(text, path="a.ipynb").output


def test_a_broken_cell_does_not_matter_where_petastorm_is_not_used() -> None:
    result = migrate(json.dumps(notebook("x = = 3")), path="a.ipynb")
    assert not result.errors
    assert not result.changed


def test_places_count_within_the_cell() -> None:
    text = json.dumps(notebook("\n\n", ["x\n", "import petastorm; petastorm.make_reader()"]))
    edits = migrate(text, path="a.ipynb").edits
    assert [(edit.cell, edit.line, edit.column) for edit in edits] == [(3, 2, 8), (3, 2, 19)]


def test_format_3_has_sheets() -> None:
    code = {
        "cell_type": "code",
        "input": ["from petastorm import make_reader"],
        "language": "python",
    }
    text = json.dumps({"worksheets": [{"cells": [code]}], "nbformat": 3, "metadata": {"name": ""}})
    check_rewrite(text, text.replace("from petastorm", "from mdstorm"), "a.ipynb")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"cells": ["petastorm"', "broken JSON"),
        ('["petastorm"]', "no notebook"),
        ('{"cells": ["petastorm"]}', "no notebook"),
        ('{"cells": {"petastorm": 1}}', "no notebook"),
        ('{"cells": [], "metadata": "petastorm"}', None),
        ("[" * 100_000 + "petastorm", "broken JSON"),
        ("petastorm", "broken JSON"),
    ],
)
def test_what_is_no_notebook_is_reported(text: str, reason: str | None) -> None:
    result: Result = migrate(text, path="a.ipynb")
    assert not result.changed
    assert [reason in str(problem) for problem in result.errors] == [True] * (reason is not None)


@pytest.mark.parametrize("magic", ["%%writefile a.py", "%%file a.py", '%%writefile -a "b/a b.py"'])
def test_a_written_file_has_names_of_its_own(magic: str) -> None:
    before = notebook(
        "petastorm = 1\n", f"{magic}\nimport petastorm\npetastorm.make_reader(1)", "petastorm.real"
    )
    after = notebook(
        "petastorm = 1\n", f"{magic}\nimport mdstorm\nmdstorm.make_reader(1)", "petastorm.real"
    )
    check_rewrite(json.dumps(before), json.dumps(after), "a.ipynb")


def test_a_comment_stands_below_the_magic_that_writes() -> None:
    cell = ["%%writefile a.py\n", "from petastorm.reader import Ventilator"]
    result = migrate(json.dumps(notebook(cell)), path="a.ipynb")
    first, todo, last = json.loads(result.output)["cells"][1]["source"]
    assert (first, last) == (cell[0], cell[1])
    assert todo.startswith("# TODO(mdstorm): PM107")


def test_a_written_file_of_another_kind_is_migrated_as_one() -> None:
    before = notebook("%%writefile requirements.txt\nnumpy\npetastorm==0.12.1\n")
    after = notebook("%%writefile requirements.txt\nnumpy\nmdstorm\n")
    check_rewrite(json.dumps(before), json.dumps(after), "a.ipynb")


def test_a_written_file_that_cannot_be_parsed_is_named() -> None:
    text = json.dumps(notebook("import petastorm as p", "%%writefile a.py\nx = 1\npetastorm.f(:"))
    result = migrate(text, path="a.ipynb")
    assert [(one.cell, one.line) for one in result.errors] == [(3, 3)]
    assert '"import mdstorm as p"' in result.output


@pytest.mark.parametrize(
    ("cell", "after"),
    [
        ("%sh pip install petastorm==0.11.4 && pip list", "%sh pip install mdstorm && pip list"),
        ('%sh /opt/bin/pip install "petastorm==0.9.8"', '%sh /opt/bin/pip install "mdstorm"'),
        ("%sh cd /tmp\npip install petastorm", "%sh cd /tmp\npip install mdstorm"),
        ("%%sh -e\npip install petastorm", "%%sh -e\npip install mdstorm"),
    ],
)
def test_commands_may_begin_behind_the_magic_of_a_shell(cell: str, after: str) -> None:
    check_rewrite(json.dumps(notebook(cell)), json.dumps(notebook(after)), "a.ipynb")


def test_cells_of_markdown_that_mention_petastorm_are_reported_and_stay() -> None:
    def made(code: str) -> str:
        found = notebook(code)
        told = {"cell_type": "markdown", "source": "```\npip install petastorm\n```"}
        found["cells"] = [told, *found["cells"], {"cell_type": "raw", "source": ["petastorm"]}]
        return json.dumps(found, indent=1)

    before = "from petastorm import make_reader\n"
    result = check_rewrite(made(before), made(before.replace("petastorm", "mdstorm")), "a.ipynb")
    (said,) = result.findings
    assert (said.rule, said.cls, said.cell, said.line) == ("PM100", "note", 1, 2)


def test_prose_that_names_sparks_key_holds_no_code() -> None:
    key = 'spark.conf.set("petastorm.spark.converter.parentCacheDirUrl", "file:///tmp")\n'
    told = {"cell_type": "markdown", "source": [key]}
    plain, beside = notebook(key), notebook(key)
    beside["cells"].append(told)
    one, other = (migrate(json.dumps(made), path="a.ipynb") for made in (plain, beside))
    assert [edit.cls for edit in one.edits] == [edit.cls for edit in other.edits] == ["exact"]
