"""PM103: dotted names in strings."""

import re
from pathlib import Path

from tests.kit.migrating import (
    check_held,
    check_moves,
    check_noop,
    check_rewrite,
    check_silence,
    each,
)

from mdstorm_migrate.api import migrate


@each(
    '@patch("petastorm.reader.make_reader", autospec=True)\ndef test(): ...',
    'monkeypatch.setattr("petastorm.make_reader", fake)',
    'mock.patch("petastorm.pytorch.BatchedDataLoader")',
    'mock.patch("petastorm.tf_utils.tf_tensors")',
    'import_module(name)\nmock.patch("petastorm.reader.make_reader")',
    'mock.patch("petastorm.predicates.in_lambda")',
    'from importlib import import_module as im\nim("petastorm.spark")',
    'sub = __import__("petastorm.spark", fromlist=["x"])\nsub.make_spark_converter',
    'HAS = find_spec("petastorm") is not None',
    'pytest.importorskip("petastorm.pytorch")',
    'pytest.importorskip(modname="petastorm.spark")',
    'pytest.importorskip("petastorm", reason="needs Spark")',
    'print(importlib.metadata.version("petastorm"))',
    'from pkg_resources import get_distribution as g\nlog(g("petastorm").version)',
    '@click.version_option(package_name="petastorm")\ndef main(): ...',
    'from importlib.metadata import version\n[version(n) for n in ["numpy", "petastorm"]]',
    'from importlib import metadata\nfor n in ("petastorm",): print(n, metadata.version(n))',
    'from importlib.metadata import version\nN = ("a", "petastorm")\n{n: version(n) for n in N}',
    'logging.getLogger("petastorm").setLevel(40)',
    'logging.getLogger(name="petastorm.spark.spark_dataset_converter")',
    'with self.assertLogs("petastorm", level="INFO"): ...',
    'with caplog.at_level(10, logger="petastorm"): ...',
    'warnings.filterwarnings("ignore", module="petastorm")',
    'filterwarnings("ignore", module=r"petastorm\\..*")',
    'dictConfig({"loggers": {"petastorm": {"level": "ERROR"}}})',
    'sys.modules["petastorm"] = None',
    'autodoc_mock_imports = ["pyspark", "petastorm.spark"]',
    'autodoc_mock_imports: list[str] = ["petastorm.spark"]',
    'autodoc_mock_imports += ["petastorm.spark"]',
    'MOCKS = ["torch", "petastorm"]\nautodoc_mock_imports = MOCKS + ["x"]',
    'run([sys.executable, "-m", "petastorm.etl.dataset_metadata", url])',
    'session.run("python", "-m", "petastorm.etl.dataset_metadata", "a")',
    'pkgutil.resolve_name("petastorm.reader:make_reader")',
    'try: f()\nexcept ImportError as e:\n    if e.name != "petastorm": raise',
    'try: f()\nexcept ImportError as e:\n    if "petastorm" in str(e): raise',
    'try: f()\nexcept E as e:\n    if type(e).__module__.startswith("petastorm"): raise',
    'assert x.__class__.__module__ == "petastorm.unischema"',
    'assert type(x).__module__.split(".")[0] == "petastorm"',
    'self.assertEqual(type(x).__module__, "petastorm.predicates")',
    'if "petastorm" in sys.modules: ...',
    '# look up "mdstorm"\nif "petastorm" in sys.modules: ...',
    'sys.modules.pop("petastorm.spark", None)',
    'patch.dict("sys.modules", {"petastorm": None})',
    'monkeypatch.setitem(sys.modules, "petastorm", None)',
    'hydra.utils.instantiate({"_target_": "petastorm.make_reader"})',
    'DataConf(_target_="petastorm.pytorch.DataLoader")',
    'patch("petastorm.reader.Reader.stop")',
    'patch("petastorm.spark.SparkDatasetConverter.make_torch_dataloader")',
    'import petastorm, pkgutil\npkgutil.walk_packages(petastorm.__path__, "petastorm.")',
    "import petastorm\nfrom pkgutil import iter_modules as m\n"
    'm(petastorm.__path__, prefix="petastorm.")',
)
def test_module_name_in_known_function_is_renamed(text: str) -> None:
    check_moves(f"{text}\n")


@each(
    '"""Read.\n\n>>> from petastorm import make_reader\n>>> make_reader("u")\n"""\n',
    'def f():\n    """>>> import petastorm.reader as r\n    ... r.make_reader(u)\n    """\n',
    "class C:\n    r'''Rows.\n\n    >>> import petastorm\n"
    "    >>> with petastorm.make_reader(u) as r:\n"
    "    ...     next(r)\n    '''\n",
)
def test_example_in_docstring_moves_with_code(text: str) -> None:
    check_moves(f"{text}from petastorm import make_reader\n")
    check_noop(text, "a.py")


def test_what_example_shows_moves_or_needs_manual_review() -> None:
    text = (
        '"""Rows.\n\n>>> from petastorm import make_reader\n>>> make_reader.__module__\n'
        "'petastorm.reader'\n{}\nThis is not petastorm.reader.\n"
        '"""\nfrom petastorm import make_reader\n'
    )
    shown = ">>> make_reader(u)\n<petastorm.reader.Reader object>\n"
    found = migrate(text.format(shown), path="a.py", todo=False)
    moved = found.output.replace("mdstorm", "petastorm")
    assert moved == text.format(shown)
    assert "'mdstorm.reader'" in found.output
    assert shown in found.output
    assert "not petastorm" in found.output
    (one,) = (one for one in found.findings if one.rule == "PM103" and one.cls == "manual")
    assert one.message == "this example shows `petastorm.reader.Reader`"


@each(
    'v = {n: version(n) for n in ["petastorm"]}\nv["petastorm"]',
    'for n in ["petastorm"]: log(version(n)), run(n)',
    'N = ["petastorm"]\nfor n in N: version(n)\nrun(N)',
)
def test_listed_name_that_code_also_uses_otherwise_needs_manual_review(text: str) -> None:
    text = f"from importlib.metadata import version\n{text}\n"
    check_held(text, "PM103", '"petastorm"')
    moving = f"from petastorm import make_reader\n{text}"
    check_rewrite(moving, moving.replace("petastorm", "mdstorm", 1), todo=False)


def test_example_with_what_mdstorm_lacks_needs_manual_review() -> None:
    code = "from petastorm import make_reader\n"
    text = f'"""Rows.\n\n>>> {code}>>> from petastorm.hdfs import namenode\n"""\n'
    found = [one for one in migrate(text + code, path="a.py").findings if one.rule == "PM103"]
    assert [(one.cls, one.line) for one in found] == [("manual", 3)]
    assert migrate(text + code, path="a.py").output.endswith(code.replace("petastorm", "mdstorm"))


def test_module_name_after_a_sentence_is_renamed() -> None:
    check_rewrite(
        'log("petastorm is slow")\nmock.patch("petastorm.reader.make_reader")\n',
        'log("petastorm is slow")\nmock.patch("mdstorm.reader.make_reader")\n',
    )


@each(
    'mock.patch("petastorm.reader.Reader")',
    'mock.patch("petastorm.pytorch.DataLoader")',  # Petastorm's converters use it, mdstorm's do not
    'logging.getLogger("petastorm.reader")',
    # what configuration names, which may be elsewhere
    'assert load()["reader"]["_target_"] == "petastorm.make_reader"',
    'self.assertEqual(conf.model.class_path, "petastorm.pytorch.DataLoader")',
    't = conf._target_\nassert t in ("petastorm.make_reader", "x")',
    # what a test logs and what it checks, of which one is in review
    'with self.assertLogs("petastorm"):\n    getLogger("petastorm.reader").error("x")',
)
def test_module_name_needs_review_if_its_effect_is_unclear(text: str) -> None:
    check_noop(text)
    check_rewrite(text, text.replace("petastorm", "mdstorm"), unsafe=True)


@each(
    'parser.add_argument("--engine", choices=["petastorm", "arrow"])',
    'try: f()\nexcept E as e:\n    if engine.name == "petastorm": ...',
    'run(["-c", "petastorm.yaml", "petastorm"])',
    'open("/mnt/petastorm.reader")',
    'print("petastorm", "petastorm" if "x" in sys.modules else 1)',
    'version("petastorm")',
    '[version(n) for n in ["petastorm"]]',
    'conf._target_ in ("petastorm.make_reader", "mdstorm.make_reader")',
    'conf["_target_"] == "petastorm.own"\nconf["name"] == "petastorm.make_reader"',
    'client.patch("petastorm")',
    'warnings.filterwarnings("ignore", message="petastorm is slow")',
    'ERROR = "first:\\nimport petastorm and try again"',
    'print("import petastorm")',
    'LIB = "petastorm"\nlog(LIB)\nclient.setattr(x, LIB)',
    'BACKENDS = ["petastorm"]\nsys.modules["pyspark"] = sys.modules[__name__] = None\n',
    # the value of an option, in a file that also imports modules by name
    'import_module(f"plugins.{x}")\nif engine == "petastorm": ...\nregister("petastorm")\n',
)
def test_string_that_is_data_is_unchanged(text: str) -> None:
    check_silence(text)


@each(
    # names that mdstorm does not have, and comparisons of Petastorm's version
    ('mock.patch("petastorm.hdfs.namenode.x")', '"petastorm.hdfs.namenode.x"'),
    ('import_module("petastorm.reader").Ventilator', '"petastorm.reader"'),
    ('p = import_module("petastorm")\np.reader._private', '"petastorm"'),
    ('m = pytest.importorskip("petastorm", minversion="0.9")', '"petastorm"'),
    ('V = parse(metadata.version("petastorm"))\nif V < X: ...', '"petastorm"'),
    ('for n in ["petastorm"]:\n    if metadata.version(n) < X: ...', '"petastorm"'),
    # a concatenated string
    ('mock.patch("petastorm" ".make_reader")', '"petastorm" ".make_reader"'),
    # functions of the project with the name of one that imports
    ('from .registry import find_loader\nfind_loader("petastorm")', '"petastorm"'),
    ('def locate(name): ...\nlocate(name="petastorm")', '"petastorm"'),
    ('def f(self): return self.plugins.find_loader("petastorm")', '"petastorm"'),
    # names that code which replaces imports compares
    (
        'def f(n): assert n == "petastorm"\nsetattr(builtins, "__import__", f)',
        '"petastorm"',
    ),
    (
        'def f(n): n.split(".")[0] in ("petastorm", "x")\npatch("builtins.__import__", f)',
        '"petastorm"',
    ),
    (
        'class F:\n    def find_spec(self, n): n.startswith("petastorm")\nsys.meta_path += [F()]',
        '"petastorm"',
    ),
    # strings that code in the file may import
    ('NAMES = ["petastorm.reader"]\nfor n in NAMES: import_module(n)', '"petastorm.reader"'),
    (
        'KINDS = {"rows": "petastorm.reader:make_reader"}\nimport_module(KINDS[k].split(":")[0])',
        '"petastorm.reader:make_reader"',
    ),
    ('import_module("petastorm." + name)', '"petastorm."'),
    ('import_module("petastorm.%s" % name)', '"petastorm.%s"'),
    ('BACKEND = "petastorm"\nimport_module(f"{BACKEND}.reader")', '"petastorm"'),
    ('import_module(".reader", package="petastorm")', '"petastorm"'),
    (
        "class Lazy(M):\n    def __getattr__(self, n): import_module(self.__name__)\n"
        'p = Lazy("petastorm")',
        '"petastorm"',
    ),
    ('def has(n): return find_spec(n)\nhas("petastorm")', '"petastorm"'),
    # names with which code in the file fills `sys.modules`
    ('MOCKS = ["petastorm"]\nfor m in MOCKS: sys.modules[m] = Mock()', '"petastorm"'),
    ('for m in ("petastorm", "x"):\n    setitem(sys.modules, m, Mock())', '"petastorm"'),
    ('for m in ("petastorm", "x"):\n    sys.modules.setdefault(m, Mock())', '"petastorm"'),
    ('fakes = {"petastorm": Mock()}\npatch.dict("sys.modules", fakes)', '"petastorm"'),
    ('sys.modules.update({m: Mock() for m in ["petastorm"]})', '"petastorm"'),
    ('patch.dict("sys.modules", petastorm=None)', "petastorm=None"),
    (
        'def load_class(n): ...\nload_class(x)\nC = "petastorm.make_reader"',
        '"petastorm.make_reader"',
    ),
)
def test_string_resolved_at_run_time_blocks_migration(text: str, fragment: str) -> None:
    check_held(f"from petastorm import make_reader\n{text}\n", "PM103", fragment)


@each(
    # a variable whose value is resolved
    ('T = "petastorm.make_reader"\n@patch(T)\ndef test(m): ...', '"petastorm.make_reader"'),
    ('M = "petastorm.spark"\npatch(f"{M}.make_spark_converter")', '"petastorm.spark"'),
    ('LIB = "petastorm"\npytest.importorskip(LIB)', '"petastorm"'),
    ('def f():\n    n = "petastorm"\n    return find_spec(name=n)', '"petastorm"'),
    ('LIB = "petastorm"\nif LIB in sys.modules: ...', '"petastorm"'),
    ('T = "petastorm.make_reader"\nconfig = {"_target_": T}', '"petastorm.make_reader"'),
    # a table of names that another file may look up
    ('KINDS = {"rows": "petastorm.reader.make_reader"}', '"petastorm.reader.make_reader"'),
    # programs in strings
    ('run([python, "-c", "import petastorm; f()"])', '"import petastorm; f()"'),
    ('exec(dedent("""\n  import petastorm\n  f()"""))', '"""\n  import petastorm\n  f()"""'),
)
def test_name_that_a_string_gives_to_other_code_blocks_migration(text: str, fragment: str) -> None:
    check_held(f"from petastorm import make_reader\n{text}\n", "PM103", fragment)


@each('caplog.record_tuples == [("petastorm", 30, "x")]', '"petastorm" != caplog.records[0].name')
def test_logger_that_a_test_checks_needs_review(check: str) -> None:
    text = f'def test(caplog):\n    getLogger("petastorm").warning("x")\n    assert {check}\n'
    check_noop(text)
    assert {one.cls for one in migrate(text).findings} == {"review", "manual"}


@each(
    'import petastorm.pytorch as p\nwith mock.patch.object(p, "DataLoader", f): ...',
    'import petastorm.pytorch as p\nmonkeypatch.setattr(p, "DataLoader", f)',
)
def test_mock_of_name_in_module_blocks_migration(text: str) -> None:
    check_noop(text)
    assert "check that the mock has an effect" in migrate(text).output


def test_find_spec_for_both_libraries_blocks_migration() -> None:
    check_held("H = find_spec('petastorm'), find_spec('mdstorm')\n", "PM103", "'petastorm'")


def test_module_name_in_file_that_keeps_petastorm_is_unchanged() -> None:
    text = (
        "try:\n    import mdstorm as p\nexcept ImportError:\n    import petastorm as p\n"
        'mock.patch("petastorm.make_reader")\n'
    )
    check_noop(text)
    assert "still imports Petastorm" in next(
        one.message for one in migrate(text).findings if one.cls == "review"
    )


def test_module_name_of_neighbouring_file_is_unchanged(tmp_path: Path) -> None:
    (tmp_path / "petastorm.py").touch()
    script = str(tmp_path / "a.py")
    check_noop("sys.modules.pop('petastorm', None)\n", script)
    check_moves("import_module('petastorm.spark')\n", script)


@each(
    (
        "a.yaml",
        "loader:\n  _target_: {0}.pytorch.BatchedDataLoader\n  batch_size: 2\n  reader:\n"
        "    _target_: {0}.make_batch_reader  # petastorm\n    url: petastorm\n",
    ),
    ("conf/a.yml", 'model:\r\n  class_path: "{0}.pytorch.DataLoader"\r\n'),
    ("a.json", '{{"_target_": "{0}.make_reader", "name": "petastorm"}}\n'),
)
def test_object_in_configuration_moves(path: str, text: str) -> None:
    check_rewrite(text.format("petastorm"), text.format("mdstorm"), path)


@each(
    (
        "a.yaml",
        "_target_: petastorm.reader.Worker\nb:\n  _target_: petastorm.make_reader\n",
    ),
    ("a.json", '{"_target_": "petastorm.fs_utils._private"}\n'),
)
def test_object_in_configuration_that_mdstorm_lacks_needs_manual_review(
    path: str, text: str
) -> None:
    check_noop(text, path)
    assert "manual" in {one.cls for one in migrate(text, path=path).findings}


@each(
    ("a.ini", "[logger_data]\nqualname = {0}.spark.spark_dataset_converter\n"),
    (
        "a.yaml",
        "v: 1\nlog:\n  loggers:  # ours\n    x: {{level: INFO}}\n\n    {0}:\n      level: 40\n"
        "    '{0}.spark.spark_dataset_converter':\n      petastorm: 1\n  petastorm: 2\n",
    ),
    ("a.yml", "loggers:\r\n  {0}:\r\n    level: ERROR\r\nroot:\r\n  petastorm: 1\r\n"),
    ("a.yml", "loggers: {{x: {{petastorm: 1}}, {0}: {{level: ERROR}}}}\npetastorm: 1\n"),
    ("a.json", '{{"loggers": {{\n  "{0}": {{"level": "ERROR"}}}}, "petastorm": 1}}\n'),
)
def test_logger_in_configuration_moves(path: str, text: str) -> None:
    check_rewrite(text.format("petastorm"), text.format("mdstorm"), path)


def test_logger_in_configuration_with_other_messages_needs_review() -> None:
    text = "loggers:\n  petastorm.reader:\n    level: ERROR\n"
    check_noop(text, "a.yaml")
    check_rewrite(text, text.replace("petastorm", "mdstorm"), "a.yaml", unsafe=True)


@each(
    "loggers:\n  petastorm:\n    level: ERROR\n  mdstorm:\n    level: ERROR\n",
    "loggers:\n  petastorm.workers_pool:\n    level: ERROR\nx:\n  petastorm:\n",
)
def test_logger_in_configuration_that_both_have_or_mdstorm_lacks_stays(text: str) -> None:
    check_silence(text, "a.yaml")


@each(
    ("a.yaml", "loader: petastorm.pytorch.BatchedDataLoader  # fast\n"),
    ("a.json", '{"reader": {"made by": "petastorm.make_reader", "n": 2}}\n'),
    ("a.toml", "[loader]\nclass = 'petastorm.pytorch.DataLoader'\n"),
    ("a.ini", "[data]\nfactory = petastorm.make_reader\n"),
    ("a.toml", "[plugins]\nrows = 'petastorm.reader:make_reader'\n"),
)
def test_dotted_name_under_other_key_needs_manual_review(path: str, text: str) -> None:
    name = next(word for word in re.findall(r"[\w.:]+", text) if word.startswith("petastorm."))
    check_held(text, "PM103", name, path)


@each(
    (
        "a.yaml",
        "i: petastorm:latest\na: petastorm\nb: petastorm.yaml\nc: petastorm.pytorch and others\n",
    ),
    ("a.yaml", "petastorm.pytorch: 1\nx: [petastorm.reader]\n# y: petastorm.reader\n"),
)
def test_value_that_names_nothing_of_petastorm_is_only_a_mention(path: str, text: str) -> None:
    check_silence(text, path)


@each(
    ("a.yaml", "# _target_: petastorm.make_reader\nname: petastorm.make_reader\n"),
    ("a.yaml", "_target_: ours.petastorm.make_reader\n"),
    ("a.yaml", "_target_: petastorm_ours.make_reader\n"),
    ("a.json", '{"name": "petastorm.make_reader", "not_target_": "petastorm.make_reader"}\n'),
)
def test_other_names_in_configuration_are_unchanged(path: str, text: str) -> None:
    check_noop(text, path)
