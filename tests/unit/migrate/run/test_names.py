"""Names of Petastorm's parts and attributes that only its objects have are found in each file."""

import json
from pathlib import Path
from random import Random

from tests.kit.migrating import each, run, write_files

from mdstorm_migrate.run.outcome import Settings
from mdstorm_migrate.run.together import examine

MAKES = "from petastorm.spark import make_spark_converter\n"
CONV = f"{MAKES}def mk(df): return make_spark_converter(df)\n"
#: Code that reads a converter's files as Parquet.
READ = "import pandas as pd\npd.read_parquet({}.file_urls[0])\n"
FROM = "from feeds import mk\n"
FIXTURE = f"{CONV}@pytest.fixture\ndef conv(df): return mk(df)\n"
IN_TEST = "import pandas as pd\ndef test_it(conv):\n    pd.read_parquet(conv.file_urls)\n"
#: A loader of mdstorm's converter does not have the attribute `reader`.
FIT = "def fit(conv):\n    with conv.make_torch_dataloader() as dl:\n        return dl.reader\n"
CLASS = (
    "class Fit:\n    def __init__(self, conv): self.dl = conv.make_torch_dataloader()\n"
    "    def run(self): return self.dl.reader\n"
)


def manual(root: Path, files: dict[str, str]) -> dict[str, list[str]]:
    """Return the codes of the findings for manual review, for each file that has some."""
    write_files(root, files)
    codes = {
        one.path.relative_to(root).as_posix(): [
            finding.rule for finding in one.outcome.findings if finding.cls == "manual"
        ]
        for one in run(sorted(root.rglob("*.py")), Settings())
    }
    return {name: rules for name, rules in codes.items() if rules}


@each(
    # through a package, an alias, and files that do not name Petastorm
    ({"feeds/conv.py": CONV, "feeds/__init__.py": "from .conv import mk\n"}, FROM),
    ({"feeds.py": f"{MAKES}mk = make_spark_converter\n"}, FROM),
    (
        {
            "base.py": CONV,
            "middle.py": "from base import mk\ndef load(df): return mk(df)\n",
            "feeds.py": "from middle import load as mk\n",
        },
        FROM,
    ),
    ({"feeds.py": CONV}, "from feeds import *\n"),
    ({"feeds.py": CONV}, "import feeds\nmk = feeds.mk\n"),
    ({"a/b/feeds.py": CONV}, "import a.b.feeds\nmk = a.b.feeds.mk\n"),
    ({"feeds.py": CONV}, "def mk(df):\n    from feeds import mk as make\n    return make(df)\n"),
    # in containers, from generators, and from methods
    ({"feeds.py": f"{MAKES}def mk(a): return make_spark_converter(a), 1\n"}, FROM),
    ({"feeds.py": f"{MAKES}def mk(a): yield make_spark_converter(a)\n"}, FROM),
    (
        {
            "feeds.py": f"{MAKES}A = {{}}\nA['a'] = make_spark_converter(d)\n"
            "def mk(a): return A[a]\n"
        },
        FROM,
    ),
    (
        {
            "feeds.py": f"{MAKES}class F:\n    @staticmethod\n    def mk(a):\n"
            "        return make_spark_converter(a)\nmk = F.mk\n"
        },
        FROM,
    ),
    (
        {
            "feeds.py": f"{MAKES}class F:\n    def mk(self, a): return make_spark_converter(a)\n"
            "mk = F().mk\n"
        },
        FROM,
    ),
)
def test_converter_from_another_file_gets_finding_of_same_file(
    files: dict[str, str], begin: str, tmp_path: Path
) -> None:
    use = begin + READ.format("mk(df)")
    assert manual(tmp_path, {**files, "use.py": use}) == {"use.py": ["PM119"]}


@each(
    # a fixture of pytest
    {"tests/conftest.py": FIXTURE, "tests/test_use.py": IN_TEST},
    {"conftest.py": FIXTURE.replace("return", "yield"), "tests/test_use.py": IN_TEST},
    # an attribute of an object, of a base class, of a dataclass; a property
    {
        "feeds.py": f"{CONV}class Base:\n    def __init__(self, df): self.conv = mk(df)\n",
        "use.py": "from feeds import Base\nclass Own(Base): ...\n" + READ.format("Own(df).conv"),
    },
    {
        "feeds.py": f"{CONV}@dataclass\nclass Box:\n    name: str\n    conv: object\n"
        "def box(df): return Box('x', conv=mk(df))\n",
        "use.py": "from feeds import box\n" + READ.format("box(df).conv"),
    },
    {
        "feeds.py": f"{CONV}class Box:\n    @property\n    def conv(self): return mk(1)\n"
        "B = Box()\n",
        "use.py": "import feeds\n" + READ.format("feeds.B.conv"),
    },
    # a class method, and a method that is named like one of containers
    {
        "feeds.py": f"{CONV}class Box:\n    def __init__(self, df): self.conv = mk(df)\n"
        "    @classmethod\n    def of(cls, df): return cls(df)\n",
        "use.py": "from feeds import Box\n" + READ.format("Box.of(df).conv"),
    },
    {
        "feeds.py": f"{CONV}class Box:\n    def __init__(self): self.all = {{'a': mk(1)}}\n"
        "    def get(self, name): return self.all.get(name)\n",
        "use.py": "from feeds import Box\n" + READ.format("Box().get('a')"),
    },
    # a parameter that is annotated with the class
    {
        "types_.py": "from petastorm.spark import SparkDatasetConverter as C\n",
        "use.py": "from types_ import C\ndef f(c: C):\n    import pandas as pd\n"
        "    pd.read_parquet(c.file_urls)\n",
    },
)
def test_converter_in_attribute_fixture_or_annotation_is_followed(
    files: dict[str, str], tmp_path: Path
) -> None:
    *_, name = files
    assert manual(tmp_path, files) == {name: ["PM119"]}


@each(
    ({"main.py": f"{CONV}from use import fit\nfit(mk(df))\n"}, FIT),
    ({"main.py": f"{CONV}import use\nuse.fit(conv=mk(df))\n"}, FIT),
    ({"feeds.py": CONV, "main.py": f"{FROM}from use import Fit\nFit(mk(df)).run()\n"}, CLASS),
    *(
        ({"main.py": f"{CONV}from use import fit\nc = mk(df)\n{launch}\n"}, FIT)
        for launch in (
            "HorovodRunner(np=2).run(fit, conv=c)",
            "TorchDistributor(num_processes=2).run(fit, c)",
            "horovod.spark.run(fit, args=(c,))",
            "Thread(target=fit, kwargs={'conv': c}).start()",
            "partial(fit, conv=c)()",
            "functools.partial(fit)(c)",
            "map(fit, [c])",
            "fit(**{'conv': c})",
        )
    ),
    *(
        ({"main.py": f"{CONV}{begin}\nwith mk(df).make_torch_dataloader() as dl: {call}\n"}, use)
        for begin, call, use in (
            ("from use import fit", "fit(dl)", "def fit(batches): return batches.reader\n"),
            ("import use", "use.fit(1, dl)", "def fit(n, x, y=0): return len(x.reader)\n"),
            ("from use import *", "fit(x=dl)", "def fit(*, x, y): print(x.reader, y.reader)\n"),
            (
                "from use import Fit",
                "Fit(dl).run()",
                CLASS.replace("conv.make_torch_dataloader()", "conv"),
            ),
        )
    ),
)
def test_loader_that_a_function_is_given_gets_finding_of_same_file(
    files: dict[str, str], use: str, tmp_path: Path
) -> None:
    assert manual(tmp_path, {**files, "use.py": use}) == {"use.py": ["PM117"]}


@each(
    (
        {"feeds/conv.py": CONV, "feeds/__init__.py": "from .conv import *\n"},
        "import feeds",
        "feeds.mk(1)",
    ),
    ({"feeds.py": CONV}, "def f(conv):", "conv"),
    ({"main.py": f"{CONV}import plug\nplug.CONV = mk(df)\n"}, "import plug", "plug.CONV"),
)
def test_attribute_of_converter_is_found_by_its_name(
    files: dict[str, str], begin: str, owner: str, tmp_path: Path
) -> None:
    indent = "    " if begin.endswith(":") else ""
    use = f"{begin}\n{indent}open({owner}.file_urls[0])\n{indent}log({owner}.cache_dir_url)\n"
    assert manual(tmp_path, {**files, "use.py": use}) == {"use.py": ["PM119"]}


@each("from petastorm import make_reader\n", "from mdstorm import make_reader\n")
def test_private_attribute_of_readers_is_found_by_its_name(code: str, tmp_path: Path) -> None:
    files = {"a.py": code, "use.py": "print(load()._workers_pool)\n"}
    assert manual(tmp_path, files) == {"use.py": ["PM117"]}


@each(
    # a project without converters, and one with attributes of that name
    {"feeds.py": "def mk(df): return df.cached()\n", "use.py": FROM + READ.format("mk(df)")},
    {"feeds.py": "from petastorm import make_reader\n", "use.py": READ.format("other")},
    {
        "feeds.py": CONV,
        "own.py": "class Own:\n    @property\n    def file_urls(self): return []\n",
        "use.py": "from own import Own\n" + READ.format("Own()"),
    },
    {
        "feeds.py": CONV,
        "own.py": "class Own:\n    def __init__(self, urls): self.file_urls = urls\n",
        "use.py": "from own import Own\n" + READ.format("Own([])"),
    },
    {
        "main.py": f"{CONV}from use import fit\nmk(df)\nfit(df)\n",
        "use.py": "def fit(x): return x.reader\n",
    },
)
def test_attribute_of_project_is_not_reported(files: dict[str, str], tmp_path: Path) -> None:
    assert manual(tmp_path, files) == {}


def test_outcomes_do_not_depend_on_order_of_files(tmp_path: Path) -> None:
    files = {
        "lib/_pt.py": "import petastorm\nfrom petastorm.reader import ArrowReaderWorker\n",
        "lib/feeds.py": f"{CONV}from . import _pt\n",
        "main.py": "from lib.feeds import mk\nfrom use import fit\nfit(mk(df))\n",
        "use.py": FIT,
        "tests/test_it.py": "@patch('petastorm.make_reader')\ndef test(r): ...\n",
        "log.py": "import logging\nlogging.getLogger('petastorm')\n",
        "other.py": "from petastorm import make_reader\n",
        "requirements.txt": "petastorm==0.12.1\n",
    }
    write_files(tmp_path, files)
    paths = [tmp_path / name for name in files]
    expected = {one.path: one for one in examine(paths, Settings()).outcomes}
    for seed in range(5):
        Random(seed).shuffle(paths)
        found = examine(paths, Settings()).outcomes
        assert {one.path: one for one in found} == expected
        assert [one.path for one in found] == [path for path in paths if path in expected]


def test_converter_reaches_notebook_that_does_not_name_petastorm(tmp_path: Path) -> None:
    code = f"{FROM}conv = mk(df)\n{READ.format('conv')}"
    cells = [{"cell_type": "code", "source": code.splitlines(keepends=True)}]
    notebook = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}, indent=1)
    write_files(tmp_path, {"feeds.py": CONV, "a.ipynb": notebook})
    outcome, _ = run(sorted(tmp_path.iterdir()), Settings())
    assert [one.rule for one in outcome.outcome.findings] == ["PM119"]


TARGET = "petastorm.pytorch.BatchedDataLoader"


@each(
    ("config.yaml", f"loader:\n  _target_: {TARGET}\n"),
    ("config.toml", f'[loader]\n_target_ = "{TARGET}"\n'),
    ("config.ini", f"[loader]\n_target_ = {TARGET}\n"),
    ("config.json", f'{{"loader": {{"class_path": "{TARGET}"}}}}\n'),
)
def test_requirement_moves_with_configuration(name: str, text: str, tmp_path: Path) -> None:
    files = {
        f"conf/{name}": text,
        "train.py": "import hydra\ndef main(cfg): return hydra.utils.instantiate(cfg.loader)\n",
        "requirements.txt": "petastorm==0.12.1\n",
    }
    write_files(tmp_path, files)
    run(sorted(path for path in tmp_path.rglob("*") if path.is_file()), Settings(), write=True)
    assert (tmp_path / "conf" / name).read_text() == text.replace("petastorm", "mdstorm")
    assert (tmp_path / "requirements.txt").read_text() == "mdstorm[torch]\n"


def test_requirement_moves_once_dotted_name_under_other_key_is_changed(tmp_path: Path) -> None:
    conf, requirements = tmp_path / "conf.yaml", tmp_path / "requirements.txt"
    conf.write_text(f"loader: {TARGET}\n")
    requirements.write_text("petastorm\n")
    (tmp_path / "a.py").write_text("loader = import_module(conf['loader'])\n")
    run(sorted(tmp_path.iterdir()), Settings(), write=True)
    assert requirements.read_text() == "petastorm\n"
    conf.write_text(conf.read_text().replace("petastorm", "mdstorm"))
    run(sorted(tmp_path.iterdir()), Settings(), write=True)
    assert requirements.read_text() == "mdstorm[torch]\n"


#: A module of the project with Petastorm's name.
OWN = {"acme/__init__.py": "", "acme/petastorm.py": "from petastorm import make_reader\n"}


@each(
    'B.__module__.split(".")[-1] == "petastorm"',
    'B.__module__.rpartition(".")[2] == "petastorm"',
    'B.__module__.rsplit(".", 1)[-1] in ("petastorm", "x")',
    '"petastorm" in B.__module__',
    'B.__module__.startswith("petastorm")',
    '"petastorm" in [m.split(".")[-1] for m in sys.modules]',
    'any(m.split(".")[-1] == "petastorm" for m in sys.modules)',
)
def test_comparison_that_may_mean_a_module_of_the_project_needs_review(
    compared: str, tmp_path: Path
) -> None:
    use = f"from acme.petastorm import B\nassert {compared}\n"
    assert manual(tmp_path, {**OWN, "a.py": use}) == {"a.py": ["PM103"]}
    assert manual(tmp_path / "alone", {"a.py": use}) == {}


@each(
    'B.__module__.split(".")[0] == "petastorm"',
    'B.__module__.partition(".")[0] in ("petastorm", "x")',
    'B.__module__.startswith("petastorm.")',
    'B.__module__ == "petastorm.reader"',
    '"petastorm" in sys.modules',
)
def test_comparison_with_whole_library_is_renamed_beside_such_a_module(
    compared: str, tmp_path: Path
) -> None:
    write_files(tmp_path, {**OWN, "a.py": f"assert {compared}\n"})
    outcomes = run(sorted(tmp_path.rglob("*.py")), Settings())
    (after,) = (one.outcome.after.decode() for one in outcomes if one.path.name == "a.py")
    assert after == f"assert {compared.replace('petastorm', 'mdstorm')}\n"


def test_files_of_converter_that_a_function_returns_to_other_files_are_reported(
    tmp_path: Path,
) -> None:
    files = {
        "conv.py": f"{CONV}def url(df): return mk(df).cache_dir_url\n",
        "read.py": "import pandas as pd\nfrom conv import url\npd.read_parquet(url(df))\n",
        "log.py": "from conv import url\nprint(url(df))\n",
    }
    assert manual(tmp_path, files) == {"conv.py": ["PM119"]}


@each(
    ("from lib import load", "p = load()"),
    ("import lib as own", "p = own.load()"),
    ("from lib import *", "p = load()"),
)
def test_version_of_package_that_another_file_returns_is_compared(
    begin: str, assign: str, tmp_path: Path
) -> None:
    files = {
        "lib.py": "def load():\n    import petastorm\n    return petastorm\n"
        "def other(): return 1\n",
        "a.py": f"{begin}\n{assign}\nOLD = p.__version__ < '0.12'\nother().__version__ < '1'\n",
    }
    assert manual(tmp_path, files) == {"a.py": ["PM107"]}


def test_edit_that_only_tests_hold_back_has_that_reason(tmp_path: Path) -> None:
    files = {
        "feeds.py": CONV,
        "tests/test_it.py": f"from petastorm.reader import ArrowReaderWorker\n{FROM}",
    }
    write_files(tmp_path, files)
    outcome, _ = run(sorted(tmp_path.rglob("*.py")), Settings())
    (found,) = outcome.outcome.findings
    assert "only tests hold it back, and they would stay on Petastorm; --unsafe" in found.message
