"""PM107: names that mdstorm does not have."""

from tests.kit.migrating import (
    check_finding,
    check_held,
    check_moves,
    check_noop,
    check_rewrite,
    each,
)

from mdstorm_migrate.api import migrate


@each(
    ("from petastorm.etl.dataset_metadata import _init_spark", "_init_spark"),
    ("from petastorm.hdfs.namenode import Ventilator", "Ventilator"),
    ("import petastorm.hdfs.namenode", "petastorm.hdfs.namenode"),
    ("import petastorm.reader as r\nr._private", "r._private"),
    ("import petastorm.reader as r\ngetattr(r, '_private', None)", "r"),
    ("import petastorm\nhasattr(petastorm.reader, 'Ventilator')", "petastorm.reader"),
    ("import petastorm\ndef f(p=petastorm): p.reader._x", "p.reader._x"),
    ("import petastorm\nf = lambda *, r=petastorm.reader: r._x", "r._x"),
    ("import petastorm\nif (r := petastorm.reader): r._x", "r._x"),
    ("import petastorm as p\ngetattr(getattr(p, 'reader'), '_x')", "p"),
    ("from petastorm import __version__ as v\nassert v > '0.9'", "v"),
    ("from petastorm.unischema import *\nUnischema('x', [np.int32])", "*"),
    ("from petastorm.tests.test_common import create_test_dataset", "create_test_dataset"),
)
def test_missing_name_is_reported_at_its_use(text: str, fragment: str) -> None:
    check_finding(text, "PM107", fragment)


def test_missing_name_used_several_times_gets_one_todo_comment() -> None:
    result = migrate("from petastorm.reader import Ventilator\nVentilator(3), Ventilator(4)\n")
    assert result.output.count("TODO(mdstorm)") == 1
    one = "petastorm.tf_utils._flatten"
    twice = f"import petastorm.tf_utils\nx = {one}, {one}\ny = {one}\n"
    comments = [one for one in migrate(twice).output.splitlines() if one.startswith("#")]
    what = "`petastorm.tf_utils._flatten` is private to Petastorm"
    assert comments == [
        f"# TODO(mdstorm): PM107: {what}; the import from Petastorm stays until you replace it"
    ]


def test_missing_names_in_several_imports_get_one_todo_comment() -> None:
    text = (
        "from petastorm.tests.test_common import (\n    TestSchema,\n    create_test_dataset,\n)\n"
        "from petastorm.tests.conftest import a, b, c\n"
    )
    result = migrate(text)
    assert result.output.count("TODO(mdstorm)") == 1
    assert len(result.findings) == 2
    assert not migrate(result.output).changed
    both = migrate("from petastorm.tf_utils import _flatten, Decimal, _set_shape\n")
    assert [found.message for found in both.findings] == [
        "`petastorm.tf_utils._flatten` and `_set_shape` are private to Petastorm",
        "`petastorm.tf_utils.Decimal` is not in mdstorm",
    ]


def test_name_in_neither_library_is_reported_as_unknown() -> None:
    text = "from petastorm.reader import _x, Ventilator, ArrowReaderWorker\n"
    assert [found.text.partition(":")[0] for found in migrate(text).findings] == [
        "`petastorm.reader._x` and `Ventilator` are in neither mdstorm nor Petastorm 0.13.1; "
        "perhaps from an older version or a fork",
        "`petastorm.reader.ArrowReaderWorker` is not in mdstorm; "
        "the import from Petastorm stays until you replace it",
    ]
    (found,) = migrate("from petastorm.unischema import decode_row\n").findings
    assert found.text.endswith("nor Petastorm 0.13.1; mdstorm.utils has one")
    (found,) = migrate("from petastorm.unischema import TransformSpec\n").findings
    assert found.text.endswith("; mdstorm has one")  # shorter than mdstorm.transform


@each(
    ("x\nif y: \\\n    use._a\n", "if y"),
    ("if y:\n    pass\nelif use._a:\n    pass\n", "elif"),
    ("try:\n    pass\nexcept use._a:\n    pass\n", "except"),
    ("x = '''\n'''; use._a\n", "x ="),
    ("@use._a\ndef f(): pass\n", "@"),
    ("class A:\n\tdef f(self):\n\t\treturn use._a\n", "\t\treturn"),
    ("for x in use._a:\n  y\n", "for"),
    ("lambda: (\n use._a)", "lambda"),
)
def test_todo_comment_is_inserted_above_statement(text: str, place: str) -> None:
    result = migrate(f"import petastorm.reader as use\n{text}")
    assert not result.errors
    lines = result.output.splitlines()
    (number,) = (n for n, line in enumerate(lines) if "# TODO(mdstorm)" in line)
    assert lines[number + 1].startswith(place)
    assert not migrate(result.output).changed


def test_missing_name_with_replacement_gets_advice() -> None:
    moved = migrate("import petastorm\npetastorm.reader.NullCache\n").output
    assert "import it from mdstorm.cache" in moved
    result = migrate("from petastorm.shuffle_options import ShuffleOptions\n")
    assert "shuffle_row_drop_partitions=" in result.output


@each(
    "import petastorm\nv = parse(petastorm.__version__)\nif v < x: ...\n",
    "import petastorm\nassert petastorm.__version__.startswith('0.1')\n",
    "import petastorm\nself.assertEqual(petastorm.__version__, '0.12.1')\n",
    "import petastorm\ncheck_version('petastorm', petastorm.__version__)\n",
    "import petastorm\nrequire_at_least(petastorm.__version__, '0.9')\n",
    "import petastorm\nv = getattr(petastorm, '__version__', '0')\nif v < '0.9': ...\n",
    "from petastorm import __version__ as v\na, b = map(int, v.split('.'))\nif a: a < 1\n",
    "import petastorm\nclass A:\n  v = petastorm.__version__\n  def f(self): self.v == '1'\n",
    "import petastorm\nclass A:\n  def f(self): self.v = petastorm.__version__\nA().v > '0'\n",
    "import petastorm\nmatch petastorm.__version__:\n    case '0.9': ...\n",
    # the package as a value
    "import petastorm\ndef f(lib, v): assert V(lib.__version__) >= v\nf(petastorm, '0.1')\n",
    "import petastorm\nfor lib, v in ((petastorm, '1'), (torch, '2')): lib.__version__ >= v\n",
    "import petastorm as p\n[lib.__version__ < v for lib, v in [(p, '0.1')]]\n",
    "import petastorm\n@mark.parametrize('m', [petastorm])\ndef test(m): m.__version__ > '0'\n",
    "def f():\n    import petastorm\n    return petastorm\nif f().__version__ < '0.9': ...\n",
)
def test_comparison_of_aliased_version_blocks_migration(text: str) -> None:
    check_noop(text)
    assert any(found.rule == "PM107" for found in migrate(text).findings)


@each(
    "VERSION = petastorm.__version__\nmlflow.log_param('petastorm', VERSION)\n",
    "print(f'{petastorm.__version__.split(chr(43))[0]}')\n",
    "log({'v': petastorm.__version__})\n",
)
def test_version_that_is_only_printed_is_renamed(text: str) -> None:
    text = f"import petastorm\n{text}"
    check_rewrite(
        text, text.replace("petastorm", "mdstorm").replace("param('mdstorm", "param('petastorm")
    )


@each(
    "r = petastorm.reader\nr.make_reader(u)\n",
    "r = petastorm.reader\nif x:\n    r = other\nr._x\n",
    "def f(p=petastorm): return p.reader.make_reader\n",
    "class A:\n    @property\n    def petastorm(self): 1\n    @petastorm.setter\n"
    "    def petastorm(self, x): 2\nx = petastorm.make_reader\n",
)
def test_import_with_alias_or_unrelated_attribute_is_renamed(text: str) -> None:
    migrated = migrate(f"import petastorm\n{text}")
    assert migrated.findings == ()
    assert migrated.output.startswith("import mdstorm\n")


@each(
    ("import petastorm as p\nfrom petastorm import make_reader", "p.__version__"),
    ("from petastorm import __version__, make_reader", "__version__"),
    (
        "try:\n    import petastorm\n    from petastorm import make_reader\n"
        "except ImportError:\n    petastorm = None",
        "petastorm.__version__",
    ),
)
def test_comparison_of_petastorm_version_blocks_migration(imports: str, use: str) -> None:
    result = check_noop(f'{imports}\nold = {use} < "0.9"\nmake_reader(url)\n')
    edits = [found for found in result.findings if found.rule == "PM101"]
    assert edits
    for edit in edits:
        assert edit.message.endswith(
            "; needs review: PM107 in this file must be resolved first (`petastorm.__version__`): "
            "its branches depend on Petastorm's version; --unsafe applies it"
        )


def test_version_in_error_message_of_version_check_is_unchanged() -> None:
    text = (
        "import petastorm\n"
        "if V(petastorm.__version__) < V('0.9'):\n"
        "    raise ImportError('petastorm >= 0.9, found %s' % petastorm.__version__)\n"
    )
    result = check_noop(text)
    assert [one.start for one in result.findings if one.rule == "PM107"] == [22]


@each(
    "if y or (petastorm := x):\n        petastorm.upper()",
    "with open(x) as petastorm:\n        g = lambda: petastorm.upper()",
)
def test_name_that_may_be_rebound_is_reported(body: str) -> None:
    text = f"def f(x, y):\n    import petastorm\n    {body}\n"
    check_finding(text, "PM107", "petastorm.upper")


@each(
    'env = {"pip": [f"petastorm=={petastorm.__version__}"]}',
    'run("pip install petastorm==%s" % petastorm.__version__)',
    'reqs.append("petastorm=={}".format(petastorm.__version__))',
    'reqs.append("==".join(["petastorm", petastorm.__version__]))',
    'reqs.append("{}=={}".format("petastorm", petastorm.__version__))',
    'reqs.append("%s==%s" % ("petastorm", petastorm.__version__))',
    'reqs.append("petastorm" + "==" + petastorm.__version__)',
    "reqs.append(f'{\"petastorm\"}~={petastorm.__version__}')",
    'reqs.append("petastorm=={v}".format_map({"v": petastorm.__version__}))',
    'reqs.append(Template("petastorm==$v").substitute(v=petastorm.__version__))',
)
def test_requirement_built_from_petastorm_version_keeps_petastorm(pin: str) -> None:
    use = "{}.make_reader(u)\n"
    before = f"import petastorm\n{pin}\n{use.format('petastorm')}"
    after = f"import petastorm\nimport mdstorm\n{pin}\n{use.format('mdstorm')}"
    result = check_rewrite(before, after, todo=False)
    assert "PM107" in {found.rule for found in result.findings}


HEAD = "from petastorm.cache import NullCache\nfrom petastorm.reader import Reader\n\n"


@each("Reader(fs, path)\n", "partial(Reader, cache=NullCache())\n")
def test_reader_constructed_directly_blocks_migration(use: str) -> None:
    check_held(HEAD + use, "PM107", use.strip())


@each(
    ("class R(Reader): seen = 0\nR(fs, path)\n", "R(fs, path)"),
    (
        "class R(Reader):\n    def __init__(self, *a): super().__init__(*a)\n",
        "super().__init__(*a)",
    ),
)
def test_constructed_subclass_of_reader_blocks_migration(use: str, fragment: str) -> None:
    check_held(HEAD + use, "PM107", fragment)


@each(
    "class Fake(Reader):\n    def __init__(self): self.n = 0\nFake()\n",
    "class R(Reader): seen = 0\ndef f(r: R): isinstance(r, R)\n",
)
def test_subclass_of_reader_that_constructs_none_moves(use: str) -> None:
    check_moves(HEAD + use)


def test_blank_in_exercise_is_reported_and_does_not_block_migration() -> None:
    text = "from petastorm import ______\nfrom petastorm.pytorch import DataLoader\n"
    after = text.replace("petastorm.pytorch", "mdstorm.pytorch")
    result = check_rewrite(text, after, todo=False)
    assert [one.message for one in result.findings] == ["`petastorm.______` is a blank to fill in"]


@each(
    "petastorm.spark.make_spark_converter = fake",
    "ps.make_spark_converter = fake",
    "Reader.stop = lambda self: None",
    "ps.counter += 1",
    "del petastorm.spark.make_spark_converter",
    "for ps.x in y: pass",
)
def test_monkeypatch_of_petastorm_blocks_migration(statement: str) -> None:
    text = "import petastorm\nimport petastorm.spark as ps\nfrom petastorm.reader import Reader\n"
    text += f"def f():\n    {statement}\n"
    check_noop(text)
    assert "is replaced at run time" in " ".join(one.message for one in migrate(text).findings)


@each(
    "converter = ps.make_spark_converter(df)\nconverter._dataset_path = x",
    "self.petastorm = x",
    "monkeypatch.setattr(ps, 'make_spark_converter', fake)",
    "class R(Reader):\n    stop = None",
    # attributes of classes and functions, and arguments of other libraries, are not checked
    "Reader._x, ps.make_spark_converter._x, Other(worker_class=A)",
)
def test_assignment_to_other_attributes_does_not_block_migration(statement: str) -> None:
    before = f"import petastorm.spark as ps\nfrom petastorm.reader import Reader\n{statement}\n"
    after = f"import mdstorm.spark as ps\nfrom mdstorm.reader import Reader\n{statement}\n"
    check_rewrite(before, after)
