"""Strings that are names."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.migrate.checks import check_finding, check_noop, check_rewrite

from mdstorm_migrate.api import migrate


@pytest.mark.parametrize(
    "text",
    [
        "mock.patch('petastorm.spark.make_spark_converter')",
        'mocker.patch(target="petastorm.spark.make_spark_converter")',
        'monkeypatch.setattr("petastorm.reader.make_reader", fake)',
        'importlib.import_module(r"petastorm.spark")',
        'importlib.import_module(name="petastorm")',
        'importlib.util.find_spec("petastorm")',
        '__import__("petastorm")',
        'pytest.importorskip("petastorm")',
        'sys.modules["petastorm.spark"] = None',
        'sys.modules.pop("petastorm", None)',
        'monkeypatch.setitem(sys.modules, "petastorm", None)',
        "monkeypatch.delitem(sys.modules, 'petastorm.reader', raising=False)",
        '"petastorm" in sys.modules',
        'mock.patch.dict("sys.modules", {"petastorm": None, "petastorm.spark": None})',
        '_target_: str = "petastorm.pytorch.DataLoader"',
        'conf = {"_target_": "petastorm.make_reader", "num_epochs": 1}',
        'cfg["_target_"] = "petastorm.spark.make_spark_converter"',
        'conf = dict(_target_="petastorm.reader.Reader")',
        'logging.getLogger("petastorm").setLevel(40)',
        'logging.getLogger("petastorm.spark.spark_dataset_converter").setLevel(40)',
        'mocker.patch("petastorm.pytorch.DataLoader.__iter__")',
        'mocker.patch("petastorm.pytorch.BatchedDataLoader.__init__", return_value=None)',
        'mocker.patch("petastorm.TransformSpec")',
        'mock.patch("petastorm.predicates.in_pseudorandom_split.do_include", return_value=True)',
        'monkeypatch.setitem(__import__("sys").modules, "petastorm", None)',
        'for n in ("petastorm", "py4j"):\n    logging.getLogger(n).setLevel(40)',
        '[getLogger(n).disable() for n in ["petastorm"]]',
        'NOISY = ["petastorm"]\nfor n in sorted(NOISY):\n    getLogger(n).setLevel(40)',
        'LEVELS = {"petastorm": 40}\nfor n, x in LEVELS.items():\n    getLogger(n).setLevel(x)',
        'for logger in map(logging.getLogger, ["petastorm"]): logger.disabled = True',
        'config["loggers"]["petastorm"] = {"level": "ERROR"}',
        'dictConfig(dict(version=1, loggers={"petastorm": {"level": "ERROR"}}))',
        'for n in ["petastorm", "torch"]:\n  try: __import__(n)\n  except ImportError: print(n)',
        'for n in ("petastorm", "petastorm.spark"): sys.modules[n] = Mock()',
        'MOCKED = ["petastorm"]\nsys.modules.update((n, Mock()) for n in MOCKED)',
        'sys.modules.update({"petastorm": Mock(), "petastorm.reader": Mock()})',
        'MOCKED = ["petastorm"]\npatch.dict("sys.modules", {n: Mock() for n in MOCKED})',
        'autodoc_mock_imports = ["petastorm", "torch"]',
        'Analysis(["main.py"], hiddenimports=["petastorm.spark"])',
        'NEEDED = ("petastorm",)\nfor n in NEEDED:\n    importlib.import_module(n)',
        'importlib.import_module(".spark", package="petastorm")',
        'importlib.import_module(".reader", "petastorm").make_reader(u)',
        'sub = __import__("petastorm.spark", fromlist=["x"])\nsub.make_spark_converter',
        '(m := __import__("petastorm.spark")).spark.make_spark_converter',
        'subprocess.run([sys.executable, "-m", "petastorm.benchmark.cli", url])',
        'dictConfig({"version": 1, "loggers": {"petastorm": {"level": "ERROR"}}})',
        'from importlib import import_module as im\nim("petastorm").make_reader(u)',
        'load = importlib.import_module\nload(".reader", package="petastorm")',
        'pkgutil.find_loader("petastorm") and "petastorm" in sys.modules',
        'self.assertIn("petastorm", sys.modules)',
        'hidden = ["petastorm.spark"] + other\nAnalysis(["main.py"], hiddenimports=hidden)',
    ],
)
def test_names_for_python_follow(text: str) -> None:
    check_rewrite(text, text.replace("petastorm", "mdstorm"))


@pytest.mark.parametrize(
    "text",
    [
        # Petastorm looks these up itself, mdstorm does not
        '@patch("petastorm.reader.Reader", autospec=True)\ndef test(reader): ...',
        'mocker.patch(target="petastorm.pytorch.DataLoader")',
        # mdstorm logs and warns in other places
        'logging.getLogger("petastorm.reader")',
        'dictConfig({"loggers": {"petastorm.reader": {"level": "ERROR"}}})',
        'NOISY = ["petastorm"]\nfor n in NOISY: getLogger(n)\nprint(", ".join(NOISY))',
        '{n: __import__(n).__version__ for n in ["petastorm"]}',
        'handler.addFilter(logging.Filter("petastorm"))',
        'PINS = {"petastorm": "0.11"}\nfor n, pin in PINS.items():\n    import_module(n)',
        'for n in ["petastorm"]:\n    import_module(n)\n    run(["pip", "install", f"{n}==1"])',
        'caplog.at_level(10, logger="petastorm")',
        'self.assertLogs("petastorm")',
        'warnings.filterwarnings("ignore", module="petastorm")',
        'warnings.filterwarnings("ignore", module=r"petastorm\\..*")',
        'config.addinivalue_line("filterwarnings", "ignore::FutureWarning:petastorm.*:")',
        'pytest.main(["-W", "ignore::FutureWarning:petastorm"])',
        # what the test waits for may be said by other code
        'pytest.raises(ImportError, match="import of petastorm halted")',
        '{"petastorm": "WARNING", "petastorm.reader": logging.ERROR}',
        'conf = {"petastorm": "WARNING", "py4j": "ERROR"}',
        'setup(levels={"petastorm": "WARNING", "ours": "ERROR"})',
    ],
)
def test_names_that_mdstorm_reads_otherwise_are_to_review(text: str) -> None:
    check_noop(text)
    check_rewrite(text, text.replace("petastorm", "mdstorm"), unsafe=True)


@pytest.mark.parametrize(
    "text",
    [
        'assert pytest.importorskip("petastorm").__version__ >= "0.9"\n',
        'm = pytest.importorskip("petastorm")\nassert m.__version__ >= "0.9"\n',
        'm = import_module("petastorm")\nmajor, *_ = m.__version__.split(".")\nassert major < "1"',
    ],
)
def test_a_name_whose_version_is_compared_keeps_the_file(text: str) -> None:
    text = f"from petastorm import make_reader\n{text}"
    check_noop(text)
    check_finding(text, "PM103", '"petastorm"')


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("s3://code/petastorm-0.11.4-py2.py3-none-any.whl", "belongs to Petastorm"),
        ("hdfs:///envs/petastorm_env.tar.gz#environment", "pack it again with mdstorm"),
        ("petastorm-venv.tar.gz", "pack it again with mdstorm"),
        ("petastorm_envelopes.zip", "belongs to Petastorm"),
        ("s3://code/petastorm_job.zip", None),
        ("my_petastorm.zip", None),
    ],
)
def test_a_file_of_the_library_is_told_from_jobs_of_people(file: str, said: str | None) -> None:
    result = migrate(f'args = ["--py-files", "{file}"]\n')
    assert said in result.output if said else "TODO" not in result.output


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('getLogger("petastorm.reader")', "mdstorm says other things there"),
        ('warnings.filterwarnings("ignore", module="petastorm")', "mdstorm warns in other places"),
        ('mock.patch("petastorm.reader.Reader")', "mdstorm itself does not look it up there"),
        ('mock.patch("petastorm.predicates.in_set.do_include")', "mdstorm may not call it"),
    ],
)
def test_what_is_to_review_says_why(text: str, why: str) -> None:
    (finding,) = migrate(text).findings
    assert why in finding.message


@pytest.mark.parametrize(
    "text",
    [
        'engine = "petastorm" if cheap else "arrow"',
        'path = "/mnt/petastorm_cache"',
        'table = "petastorm.events"',
        'print("from petastorm import make_reader")',
        'load("petastorm")',
        'options["petastorm"]',
        'warnings.filterwarnings("ignore", message="petastorm")',
        'def f():\n    """Save frames from petastorm.reader"""',
        'config.addinivalue_line("markers", "petastorm: needs it")',
        'files("petastorm")',
        'def note(n, m):\n    import_module(m)\n    log(n)\nnote("petastorm", x)',
        'colors = {"petastorm": "WARNING", "arrow": "ERROR"}',
    ],
)
def test_data_stays(text: str) -> None:
    check_noop(text)


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ('mock.patch("petastorm.reader.Ventilator")', '"petastorm.reader.Ventilator"'),
        ('import_module("petastorm." "spark")', '"petastorm." "spark"'),
        ('import_module("petastorm\\x2espark")', '"petastorm\\x2espark"'),
        ('registry.add("petastorm.reader.Reader")', '"petastorm.reader.Reader"'),
        ('sc.addPyFile("/libs/petastorm.zip")', '"/libs/petastorm.zip"'),
    ],
)
def test_what_cannot_be_decided_is_named(text: str, fragment: str) -> None:
    check_noop(text)
    check_finding(text, "PM103", fragment)


def test_imports_wait_for_a_function_of_the_file_that_imports_by_name() -> None:
    text = (
        "def compare(package, op, version):\n"
        "    try:\n        found = importlib.import_module(package)\n"
        "    except ImportError:\n        return False\n"
        "    return op(found.__version__, version)\n\n\n"
        'NEW = compare("petastorm", operator.ge, "0.12.0")\nfrom petastorm import make_reader\n'
    )
    check_noop(text)
    remedies = [one.text for one in migrate(text).findings if one.rule == "PM103"]
    assert [one for one in remedies if one.endswith("mdstorm has its own version numbers")]


def test_what_asks_for_a_distribution_holds_no_import() -> None:
    text = 'import petastorm\nprint(importlib.metadata.version("petastorm"))\n'
    result = migrate(text, todo=False)
    assert result.output.startswith("import mdstorm")
    assert [one.cls for one in result.findings] == ["manual"]


def test_imports_wait_for_a_gate_that_cannot_be_followed() -> None:
    check_noop('if is_available("petastorm"):\n    from petastorm.pytorch import DataLoader\n')


def test_a_gate_of_the_file_moves_with_the_imports() -> None:
    text = (
        "def is_available(package: str) -> bool:\n"
        "    return importlib.util.find_spec(package) is not None\n\n\n"
        'if is_available("petastorm"):\n    from petastorm.pytorch import DataLoader\n'
    )
    check_rewrite(text, text.replace("petastorm", "mdstorm"))


@pytest.mark.parametrize(
    "call", ['table.metadata.get("petastorm")', 'context.resources.read("petastorm")']
)
def test_tables_and_resources_of_people_are_no_files_of_a_package(call: str) -> None:
    assert [one.rule for one in migrate(call).findings] == ["PM001"]


def test_what_waits_for_a_gate_says_that_the_gate_decides() -> None:
    found = migrate('if is_available("petastorm"):\n    import petastorm.pytorch\n').findings
    assert any(one.message.endswith("what it answers decides which code runs") for one in found)
    assert not any("objects" in one.message for one in found)


def test_a_gate_that_tries_the_import_moves_with_the_imports() -> None:
    text = (
        "def is_available(package: str) -> bool:\n"
        "    try:\n        __import__(package)\n    except ImportError:\n        return False\n"
        "    return True\n\n\n"
        'if is_available("petastorm"):\n    from petastorm.pytorch import DataLoader\n'
    )
    check_rewrite(text, text.replace("petastorm", "mdstorm"))


@pytest.mark.parametrize(
    "call",
    [
        'statsd.incr("petastorm.make_reader")',
        'tracer.start_as_current_span("petastorm.make_reader")',
        'StatsClient(prefix="petastorm.make_reader")',
    ],
)
def test_names_of_metrics_and_spans_are_data(call: str) -> None:
    text = f"import petastorm\nimport_module(name)\npetastorm.make_reader({call})\n"
    after = text.replace("import petastorm", "import mdstorm").replace(
        "petastorm.make_reader(", "mdstorm.make_reader("
    )
    result = check_rewrite(text, after)
    assert "PM103" not in {found.rule for found in result.findings}


@pytest.mark.parametrize(
    "text",
    [
        'config.addinivalue_line("filterwarnings", "ignore::petastorm.errors.SomeWarning")',
        '@pytest.mark.filterwarnings("ignore::petastorm.errors.SomeWarning")\ndef test(): ...',
    ],
)
def test_a_class_of_warnings_that_mdstorm_lacks_needs_manual_review(text: str) -> None:
    check_noop(text)
    check_finding(text, "PM103", '"ignore::petastorm.errors.SomeWarning"')


@pytest.mark.parametrize(
    "text",
    [
        'def f(x: "petastorm.reader.Reader"): ...',
        'Rows = Optional["petastorm.reader.Reader"]',
        'eval("petastorm.reader.Reader")',
    ],
)
def test_what_python_reads_as_code_is_not_said_to_be_left(text: str) -> None:
    text = f"import petastorm\n\n{text}\n"
    assert migrate(text).findings == ()


@pytest.mark.parametrize(
    "text",
    [
        "m = importlib.import_module('petastorm.spark')\nm.make_spark_converter, m._private\n",
        "importlib.import_module('petastorm.spark')._private\n",
        "m = import_module('petastorm.reader')\ndef f():\n    getattr(m, 'Ventilator')\n",
    ],
)
def test_a_module_of_which_something_is_used_that_mdstorm_lacks_stays(text: str) -> None:
    result = check_noop(text)
    assert [(found.rule, found.cls) for found in result.findings] == [("PM103", "manual")]


@pytest.mark.parametrize("version", ['minversion="0.11"', '"0.11"'])
def test_a_version_to_skip_tests_by_needs_manual_review(version: str) -> None:
    text = f'pytest.importorskip("petastorm", {version})\n'
    check_noop(text)
    check_finding(text, "PM103", '"petastorm"')


@pytest.mark.parametrize(
    ("text", "cls"),
    [
        ('registry.add("petastorm.reader.Reader")', "manual"),
        ('mocked = ["petastorm.pytorch"]', "note"),
    ],
)
def test_what_is_looked_up_by_nobody_knows_whom_needs_manual_review(text: str, cls: str) -> None:
    check_noop(text.removeprefix("import petastorm\n"))
    (found,) = migrate(text).findings
    assert (found.rule, found.cls) == ("PM103", cls)


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        ('import pkgutil\npkgutil.get_data("petastorm", "x")', "other files"),
        ('from importlib.resources import files as f\nf("petastorm")', "other files"),
        ('import importlib.resources as ir\nir.files("petastorm")', "other files"),
        ('copy_metadata("petastorm")', "mdstorm_backend"),
        ('image.add_local_python_source("ours", "petastorm")', "mdstorm_backend"),
        ('from importlib.metadata import version as v\nv("petastorm")', "after the migration"),
    ],
)
def test_what_takes_files_of_the_package_needs_manual_review(call: str, advice: str) -> None:
    check_noop(call)
    (finding,) = migrate(call).findings
    assert finding.cls == "manual"
    assert advice in finding.text


def test_names_of_a_neighbour_stay(tmp_path: Path) -> None:
    (tmp_path / "petastorm.py").touch()
    path = tmp_path / "main.py"
    text = 'sys.modules.pop("petastorm")\nimport_module("petastorm")\npatch("petastorm.spark")\n'
    result = migrate(text, path=path, todo=False)
    assert result.output == text.replace("petastorm.spark", "mdstorm.spark")
    assert [found.cls for found in result.findings] == ["note", "manual"]


def test_nox_runs_modules_as_lists_of_words_do() -> None:
    check_rewrite(
        's.run("python", "-m", "petastorm.benchmark.cli", "--help")\n',
        's.run("python", "-m", "mdstorm.benchmark.cli", "--help")\n',
    )


@pytest.mark.parametrize("value", ['["petastorm.tests.conftest"]', '"petastorm.tests.conftest"'])
def test_plugins_of_pytest_are_imported(value: str) -> None:
    (found,) = migrate(f"pytest_plugins = {value}\n").findings
    assert (found.rule, found.cls) == ("PM103", "manual")


@pytest.mark.parametrize(
    ("resolver", "cls"),
    [
        ("from importlib import import_module as im\nim(sys.argv[1])\n", "manual"),
        ("# import_module() gets it elsewhere\nfrom importlib import import_module\n", "note"),
    ],
)
def test_what_resolves_names_is_a_call_not_a_text(resolver: str, cls: str) -> None:
    text = f"import sys\n{resolver}job = dict(module='petastorm.etl.petastorm_generate_metadata')\n"
    assert [found.cls for found in migrate(text).findings] == [cls]


@pytest.mark.parametrize(
    ("text", "is_asked"),
    [
        ("from importlib import metadata as m\nm.version('petastorm')", True),
        ("import importlib.metadata as m\n{n: m.version(n) for n in ('petastorm', 'a')}", True),
        ("import importlib.metadata as m\nL = ['petastorm']\nfor n in L:\n    m.version(n)", True),
        ("from importlib_metadata import requires as r\nr('petastorm')", True),
        ("def version(n): return metadata.version(n)\nversion('petastorm')", True),
        ("try:\n    from importlib.metadata import version\nexcept ImportError:\n"
         "    from old import version\nversion('petastorm')", True),
        ("from mystore import version\nversion('petastorm')", False),
        ("store.version('petastorm')", False),
    ],
)  # fmt: skip
def test_a_version_is_asked_for_of_what_knows_the_distributions(text: str, is_asked: bool) -> None:
    assert ("PM103" in {found.rule for found in migrate(text).findings}) is is_asked


@pytest.mark.parametrize(
    ("text", "cls"),
    [
        ("m = json.load(f)\nm['schema_class'] == {}", "note"),
        ("m = json.loads(s)\nm.get('schema_class') == {}", "note"),
        ("m = json.load(f)\nm['_target_'] == {}", "manual"),  # which is to be called
        ("m = json.load(f)\nm['x'] = X.__module__\nm['x'] == {}", "manual"),  # names mdstorm then
        ("choices['schema_class'] == {}", "manual"),
    ],
)
def test_a_value_of_stored_data_is_a_note(text: str, cls: str) -> None:
    code = text.format("'petastorm.unischema.Unischema'")
    assert [found.cls for found in migrate(f"{code}\n").findings] == [cls]


def test_names_of_what_is_shipped_wait_for_those_that_mdstorm_lacks() -> None:
    text = "a = Analysis(['x.py'], hiddenimports=['petastorm.reader', 'petastorm.gone'])\n"
    check_noop(text, "x.spec")
    (said,) = (one.message for one in migrate(text, path="x.spec").findings if one.cls == "review")
    assert said.endswith("what is shipped is of one library or of the other")


@pytest.mark.parametrize("name", ["petastorm", "petastorm.reader"])
def test_a_hook_of_pyinstaller_is_to_be_renamed(name: str) -> None:
    text = 'hiddenimports = ["petastorm.spark"]\n'
    path = f"hooks/hook-{name}.py"
    check_noop(text, path)
    (found,) = (one for one in migrate(text, path=path).findings if one.cls == "manual")
    assert found.text.endswith(f"call it `hook-{name.replace('petastorm', 'mdstorm')}.py`")
    check_rewrite(text, text.replace("petastorm", "mdstorm"), "hooks/hook-ours.py")
