"""A second migration changes nothing, and reports the same rules as the first one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdstorm_migrate.api import migrate

#: Modules of which code may use all names, some names, or none after a migration.
MODULES = ["petastorm", "petastorm.reader", "petastorm.spark", "petastorm.hdfs.namenode"]
#: Ways in which code names a module; several of them in a file may affect each other.
NAMES = [
    "import {}",
    "import {} as other",
    "from {} import *",
    "from {} import make_reader, _private",
    "from petastorm.reader import ArrowReaderWorker, Reader",
    "try:\n    import {}\nexcept ImportError:\n    pass",
    "x = getLogger('{}')",
    "x = logging.getLogger(name='{}')",
    "patch('{}.make_reader')",
    "with patch.object({}, 'make_reader'): pass",
    "assert type(x).__module__ == '{}'",
    "assert x.__module__.startswith('{}')",
    "x = importlib.import_module('{}')",
    "x = ['{}']\nfor each in x: importlib.import_module(each)",
    "from importlib.metadata import version\nx = ['{}']\nfor each in x: f(version(each))",
    "sys.modules['{}'] = x",
    "try: import {}\nexcept ImportError:\n    for n in ['{}']: sys.modules[n] = x",
    "assert '{}' in sys.modules",
    "x: '{}.Reader'",
    "x = {}.ArrowReaderWorker\nx = {}.ArrowReaderWorker",
    "x._workers_pool",
    "class R(Reader):\n    def _filter_row_groups(self): ...",
    "assert {}.__version__ > '0.9'",
    "x = 'pip install {}'",
    "warnings.filterwarnings('ignore', module='{}')",
    "x = find_spec('{}'), find_spec('mdstorm')",
    "x = '{}'",
    "# {}: see the manual",
]


@st.composite
def programs(draw: st.DrawFn) -> str:
    """Draw a program that names one or two modules in several ways."""
    modules = draw(st.lists(st.sampled_from(MODULES), min_size=1, max_size=2))
    ways = draw(st.lists(st.sampled_from(NAMES), min_size=2, max_size=6))
    return "".join(f"{way.replace('{}', draw(st.sampled_from(modules)))}\n" for way in ways)


@pytest.mark.parametrize("unsafe", [False, True])
@given(programs())
def test_second_run_changes_nothing_and_reports_the_same_rules(unsafe: bool, text: str) -> None:
    first = migrate(text, unsafe=unsafe)
    assert first.errors == ()
    second = migrate(first.output, unsafe=unsafe)
    assert second.output == first.output
    left = [
        {one.rule for one in result.findings if one.cls == "manual"} for result in (first, second)
    ]
    assert left[0] == left[1]
