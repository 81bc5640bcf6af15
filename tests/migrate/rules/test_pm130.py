"""Names that are put together, code and commands in strings."""

from __future__ import annotations

import pytest
from tests.migrate.checks import check_finding, check_noop, check_silence

from mdstorm_migrate.api import migrate


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ('import_module(f"petastorm.{kind}")', 'f"petastorm.{kind}"'),
        ('importlib.import_module("petastorm." + kind)', '"petastorm." + kind'),
        ('importlib.import_module("petastorm.{}".format(kind))', '"petastorm.{}".format(kind)'),
        ('BACKEND = "petastorm"\nimport_module("%s.reader" % BACKEND)', '"%s.reader" % BACKEND'),
        ('PATHS = {"x": "petastorm.reader"}\nimport_module(PATHS[kind])', "PATHS[kind]"),
        ('def load(name, root="petastorm"):\n    return __import__(root + name)', "root + name"),
        (
            'from importlib import import_module as im\nim(f"petastorm.{kind}")',
            'f"petastorm.{kind}"',
        ),
        ('sys.modules["petastorm." + name] = fake', '"petastorm." + name'),
        ('monkeypatch.delitem(sys.modules, f"petastorm.{name}")', 'f"petastorm.{name}"'),
        ('def load(*, root: str = "petastorm"):\n    return find_spec(root)', "root"),
    ],
)
def test_imports_by_names_that_are_put_together_are_found(text: str, fragment: str) -> None:
    check_noop(text)
    check_finding(text, "PM130", fragment)


LAZY = """from importlib import import_module
PACKAGE = "petastorm"
class Lazy:
    def __init__(self, name, kind=None):
        self.name = name
    def __getattr__(self, item):
        return getattr(import_module(self.name), item)
"""


@pytest.mark.parametrize("name", ["PACKAGE", 'PACKAGE + ".unischema"', 'f"{PACKAGE}.codecs"'])
def test_names_for_classes_that_import_them_are_found(name: str) -> None:
    text = f"{LAZY}from petastorm import make_reader\nlazy = Lazy({name})\n"
    check_noop(text)
    check_finding(text, "PM130", name)
    check_silence(f'{LAZY}other = Lazy("acme." + PACKAGE, PACKAGE)\n')


@pytest.mark.parametrize(
    "name",
    [
        '"acme.readers." + name',
        '"acme." + name + ".io"',
        'f"acme.{name}"',
        '"acme.%s" % name',
        '"acme.{}".format(name)',
        'f".{name}_io", package=__package__',
        '"." + name, "acme"',
    ],
)
def test_names_that_begin_with_another_package_are_not(name: str) -> None:
    call = f'def load(name="petastorm"):\n    return importlib.import_module({name})\n'
    check_silence(call, "PM130")


@pytest.mark.parametrize(
    "name", ['"peta" + name', 'f".{name}", "petastorm"', 'f".{name}", root', 'f"{name}.io"']
)
def test_names_that_may_begin_with_petastorm_are(name: str) -> None:
    call = f'def load(root, name="petastorm"):\n    return importlib.import_module({name})\n'
    check_finding(call, "PM130", name.partition(",")[0])


@pytest.mark.parametrize(
    "string",
    [
        'exec("from petastorm import make_reader")',
        'eval("petastorm.make_reader")',
        'run([sys.executable, "-c", "import petastorm; print(petastorm)"])',
        'BashOperator(bash_command="petastorm-copy-dataset.py file:///a file:///b")',
        'run("python3 -m petastorm.etl.petastorm_generate_metadata", shell=True)',
        'ENTRY = "petastorm.pytorch:DataLoader"',
        'CONF = """\nloader:\n  _target_: petastorm.pytorch.DataLoader\n"""',
        'CONF = """\nloader:\n  class: petastorm.pytorch.DataLoader\n"""',
        """CONF = '{"_target_": "petastorm.make_reader"}'""",
        'INI = """\n[logger_p]\nlevel=ERROR\nqualname=petastorm\n"""',
        'CODE = """\nfrom petastorm import make_reader\n"""',
        'def f():\n    return compile(dedent("""\n    import petastorm.unischema\n    """), "x")',
        """Popen("python -c 'from petastorm.pytorch import DataLoader'", shell=True)""",
        """run(f"{sys.executable} -c 'import petastorm'", shell=True)""",
        'session.run("python", "-c", "import petastorm; print(petastorm)")',
        'Pod(cmds=["python", "-c"], arguments=["from petastorm import make_reader; run()"])',
        'run(["train.py", "loader._target_=petastorm.make_reader"])',
        'exec("from {pkg}.pytorch import {cls}".format(pkg="petastorm", cls=name))',
        'CODE = "from {}.pytorch import *".format("petastorm")\nexec(CODE)',
        'def f(name="petastorm"):\n    exec("import %s" % name)',
    ],
)
def test_code_and_commands_in_strings_are_found(string: str) -> None:
    check_noop(string)
    assert "PM130" in {found.rule for found in migrate(string).findings}


@pytest.mark.parametrize(
    "test", ['error.name == "petastorm"', '"petastorm" in str(error)', 'error.name != "petastorm"']
)
def test_tests_for_a_missing_library_are_found(test: str) -> None:
    text = f"try:\n    import x\nexcept ImportError as error:\n    if {test}:\n        raise\n"
    check_noop(text)
    check_finding(text, "PM130", '"petastorm"')


@pytest.mark.parametrize(
    "text",
    [
        'if "petastorm" not in {one.key for one in pkg_resources.working_set}: pass',
        'HAS = "petastorm" in installed',
        'assert any(one.startswith("petastorm") for one in pip)',
        'for one in setup["install_requires"]:\n    found = "petastorm" in one',
        'names = [one for one in requirements if one.split("==")[0] == "petastorm"]',
    ],
)
def test_tests_of_what_is_installed_or_required_are_found(text: str) -> None:
    check_noop(text)
    check_finding(text, "PM130", '"petastorm"')


@pytest.mark.parametrize(
    "text",
    [
        'patch("sys.argv", ["petastorm-copy-dataset.py", "--help"])',
        'sys.argv = ["petastorm-copy-dataset.py", url]',
        'REGISTRY = {"petastorm": "own.plugin"}\nimport_module(REGISTRY[name])',
        'engine = "petastorm"\nimport_module("own." + name)',
        'print("from petastorm import make_reader")',
        'HELP = "Save a video\\nfrom petastorm to a file"',
        'def f():\n    """Read.\n\n    from petastorm import make_reader\n    """',
        'path = "/tools/petastorm-copy-dataset"',
        'log(["from petastorm import make_reader"])',
        'NAME = "petastorm"\nexec(f"run({NAME!r})")',
        'run(image="petastorm:latest")',
        'urls = [one for one in urls if one.startswith("petastorm")]',
        'import petastorm\neval("petastorm.make_reader")',
    ],
)
def test_other_strings_are_data(text: str) -> None:
    assert "PM130" not in {found.rule for found in migrate(text).findings}


@pytest.mark.parametrize(
    "text",
    [
        "click.echo(f'petastorm-throughput.py: {exe}')",
        "log.info('run petastorm-generate-metadata.py first')",
        "print('at ' + 'petastorm-throughput.py', file=sys.stderr)",
        "sys.stdout.write('petastorm-throughput.py')",
    ],
)
def test_a_text_for_users_runs_nothing(text: str) -> None:
    (found,) = check_noop(f"{text}\n").findings
    assert (found.rule, found.cls) == ("PM130", "note")
    assert found.message.startswith("this text tells of a command of Petastorm")


@pytest.mark.parametrize(
    ("call", "what"),
    [
        ("print('petastorm-throughput.py x', file=script)", "is written to a file"),
        ("script.write('petastorm-throughput.py x')", "is written to a file"),
        ("parser.add_argument('x', help='see petastorm-copy-dataset.py')", "tells of a command"),
        ("os.system('petastorm-throughput.py x')", "this command runs Petastorm"),
        (
            "os.system('sed -i s/a/b/ /v/site-packages/petastorm/fs_utils.py')",
            "Petastorm's installed files",
        ),
        ("ok = \"No module named 'petastorm'\" in err", "message that names Petastorm"),
        ("raises(E, match='No module named petastorm')", "message that names Petastorm"),
    ],
)
def test_what_a_text_does_with_a_command_or_a_message(call: str, what: str) -> None:
    (found,) = migrate(f"{call}\n").findings
    assert found.rule == "PM130"
    assert found.cls == "manual"
    assert what in found.message


@pytest.mark.parametrize(
    "code",
    [
        "dedent('''\n    from petastorm import make_reader\n    make_reader(%r)\n''') % url",
        "'import petastorm\\nmake({0})'.format(url)",
        "f'from petastorm import make_reader\\nmake_reader({url!r})'",
    ],
)
def test_code_with_an_indent_or_with_places_to_fill(code: str) -> None:
    (found,) = migrate(f"run({code})\n").findings
    assert (found.rule, found.cls) == ("PM130", "manual")
    assert found.message == "this string is code that imports Petastorm"


@pytest.mark.parametrize(
    "text",
    ['m = [{"Name": "petastorm:wait"}]\n', 'raise E("No module named petastorm")\n'],
)
def test_other_names_with_a_colon_and_messages_of_ones_own(text: str) -> None:
    check_silence(text)


@pytest.mark.parametrize(
    "code",
    [
        'p.add_argument("--the-backend", choices=["petastorm", "x"])\na = p.parse_args()\n'
        "importlib.import_module(a.the_backend)\n",
        '@click.option("--b", type=click.Choice(["petastorm", "x"]))\ndef main(b):\n'
        '    importlib.import_module(f"{b}.pytorch")\n',
        'p.add_argument("-b", dest="back", default="petastorm")\n'
        "importlib.import_module(p.parse_args().back)\n",
    ],
)
def test_modules_that_an_option_chooses_are_told(code: str) -> None:
    (found,) = [one for one in migrate(code).findings if one.rule == "PM130"]
    assert "put together" in found.message
    other = migrate(code.replace('"petastorm"', '"y"') + 'X = "petastorm"\n').findings
    assert [one for one in other if one.rule == "PM130"] == []


@pytest.mark.parametrize(
    "run",
    [
        "exec(SOURCE)",
        'exec(compile(SOURCE, "x", "exec"))',
        'subprocess.run([sys.executable, "-c", SOURCE])',
        "timeit.exec(dedent(SOURCE))",
    ],
)
@pytest.mark.parametrize("source", ['"from petastorm import make_reader"', '"import petastorm"'])
def test_names_wait_for_code_in_a_string_that_a_name_is_given(run: str, source: str) -> None:
    text = f'SOURCE = {source}\n{run}\nm = __import__("petastorm").__version__\n'
    check_noop(text)
    check_finding(text, "PM130", source)


def test_names_wait_for_code_that_is_handed_to_a_python() -> None:
    check_noop(
        'subprocess.run([sys.executable, "-c", "from petastorm import make_reader"])\n'
        'm = __import__("petastorm").__version__\n'
    )
