"""Aliases of NumPy, and members of frames and arrays."""

from __future__ import annotations

import pytest
from tests.migrate.checks import check_finding, check_noop, check_rewrite

from mdstorm_migrate.api import migrate

HEAD = "import numpy as np\nimport pandas as pd\nfrom mdstorm import make_reader  # not petastorm\n"


def check_line(before: str, after: str) -> None:
    check_rewrite(f"{HEAD}{before}\n", f"{HEAD}{after}\n")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("np.zeros(3, dtype=np.float)", "np.zeros(3, dtype=float)"),
        ("x.astype(np.int)", "x.astype(int)"),
        ("isinstance(x, (np.str, np.unicode))", "isinstance(x, (str, str))"),
        ("np.float_(1)", "np.float64(1)"),
        ("np.product(x.shape)", "np.prod(x.shape)"),
        ("best = np.NINF", "best = -np.inf"),
        ("y = np.NINF ** 2", "y = (-np.inf) ** 2"),
        ("def f(x=np.PINF, *, y: np.float): ...", "def f(x=np.inf, *, y: float): ..."),
        ("x[np.NaN if y else 0]", "x[np.nan if y else 0]"),
        ("z = [np.float for x in y]", "z = [float for x in y]"),
        ("class A:\n    kind = np.object", "class A:\n    kind = object"),
        ("df = pd.read_csv(p)\nlist(df.iteritems())", "df = pd.read_csv(p)\nlist(df.items())"),
        ("dict(spark_df.toPandas().iteritems())", "dict(spark_df.toPandas().items())"),
        ("np.asarray(x).tostring()", "np.asarray(x).tobytes()"),
    ],
)
def test_a_name_becomes_what_it_stood_for(before: str, after: str) -> None:
    check_line(before, after)


@pytest.mark.parametrize(
    "line",
    [
        "def f(np): return np.float",
        "np.float = float\nx = np.float(3)",
        "kind = np.float if hasattr(np, 'float') else float",
        "if np.__version__ < '1.24':\n    kind = np.float",
        "x = {}.float_",
        "np.float32(x.real)",
        "kind = 'np.float'",
        "class A:\n    def iteritems(self): ...\nA().iteritems()",
        "np.bool",  # NumPy 2 has it again, and nothing here is Petastorm's
    ],
)
def test_what_is_something_else_stays(line: str) -> None:
    result = migrate(f"{HEAD}{line}\n")
    assert not result.changed
    assert not result.findings


def test_bool_is_the_builtin_where_petastorm_runs() -> None:
    text = "import numpy as np\nfrom petastorm import make_reader\nx.astype(np.bool)\n"
    after = "import numpy as np\nfrom mdstorm import make_reader\nx.astype(bool)\n"
    assert migrate(text).output == after


@pytest.mark.parametrize(
    "line",
    [
        "float = 3.0\nx = np.float",
        "from torch import *\nx = np.float",
        "from np2 import *\nnp.int",
        "def f(int): return np.int",
    ],
)
def test_a_builtin_that_may_be_hidden_is_left_to_the_user(line: str) -> None:
    check_noop(HEAD + line)
    (found,) = migrate(HEAD + line, todo=False).findings
    assert found.rule == "PM302"


def test_star_imports_of_spark_hide_no_builtin() -> None:
    check_line(
        "from pyspark.sql.types import *\nx = np.float",
        "from pyspark.sql.types import *\nx = float",
    )


@pytest.mark.parametrize("call", ["image.tostring()", "for k, v in unknown.iteritems(): ..."])
def test_what_is_not_seen_to_be_an_array_or_a_frame_is_reviewed(call: str) -> None:
    check_noop(HEAD + call)
    (found,) = migrate(HEAD + call).findings
    assert (found.rule, found.cls) == ("PM301", "review")


def test_a_try_that_catches_what_the_name_would_raise_does_not_keep_it() -> None:
    code = "try:\n    x = {}(y.z)\nexcept (AttributeError, TypeError):\n    x = None"
    check_line(code.format("np.float"), code.format("float"))


def test_only_questions_about_versions_count() -> None:
    code = "if conversion:\n    x = {}(y)"
    check_line(code.format("np.float"), code.format("float"))


def test_a_pattern_keeps_its_dot_since_a_bare_name_would_be_bound() -> None:
    text = f"{HEAD}match x:\n    case np.float:\n        pass\n    case np.int():\n        pass\n"
    assert migrate(text, todo=False).output == text.replace("np.int()", "int()")


def test_functions_of_that_name_stay() -> None:
    check_noop(f"{HEAD}from lxml import etree\netree.tostring(root)\netree.tostring()\n")


def test_other_imports_of_the_library_are_followed() -> None:
    check_rewrite(
        "import numpy\nimport petastorm.spark as s\nx = numpy.float(numpy.Inf)\n",
        "import numpy\nimport mdstorm.spark as s\nx = float(numpy.inf)\n",
    )
    text = "from numpy import float_ as real\nimport petastorm\nx = real(3)\n"
    check_finding(text, "PM302", "float_ as real")


def test_files_without_petastorm_stay() -> None:
    check_noop("import numpy as np\n# what petastorm reads\nx = np.float(3)\n")
