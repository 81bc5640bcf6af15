"""What install commands install."""

from __future__ import annotations

import pytest
from tests.migrate.checks import check_noop, check_rewrite

from mdstorm_migrate.packaging.commands import installed_values


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("ARG T=torch==1.7.1\nRUN pip install ${T}\n", ["torch==1.7.1"]),
        ("ENV T torch==1.7.1\nRUN pip install $T\n", ["torch==1.7.1"]),
        ("ENV A=1 \\\n    T='numpy<1.20 a'\nRUN pip install $T\n", ["'numpy<1.20 a'"]),
        ('export T=torch==1.7.1\npip install $ALL\nALL="$T b"\n', ['"$T b"', "torch==1.7.1"]),
        ("T=(torch==1.7.1 'b<2')\npip install \"${T[@]}\"\n", ["(torch==1.7.1 'b<2')"]),
        ("T := torch==1.7.1\nx:\n\tpip install $(T)\n", ["torch==1.7.1"]),
        ("T=torch==1.7.1\necho $T; pip install torch\n", []),
        ("# T=torch==1.7.1\npip install $T\n", []),
        ("T=torch==1.7.1\n# pip install $T\n", []),
    ],
)
def test_the_values_of_variables_that_are_installed(text: str, values: list[str]) -> None:
    assert [text[start:stop].strip() for start, stop in installed_values(text)] == values


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("Dockerfile", "FROM x\nARG N=numpy==1.19\nRUN pip install petastorm ${N}\n"),
        (
            "Dockerfile",
            "FROM x\nENV N=numpy==1.19\nRUN pip install $N\nRUN pip install petastorm\n",
        ),
        ("run.sh", 'N="a numpy<1.20"\npip install petastorm $N\n'),
        ("Makefile", "N = numpy~=1.19.0\nx:\n\tpip install petastorm $(N)\n"),
    ],
)
def test_a_pin_in_a_variable_holds_what_is_installed_with_it(path: str, text: str) -> None:
    result = check_noop(text, path)
    assert {one.rule: one.cls for one in result.findings}["PM412"] == "manual"
    newer = text.replace("1.19", "1.26").replace("1.20", "1.26")
    check_rewrite(newer, newer.replace("petastorm", "mdstorm"), path)
