"""setup.py, setup.cfg and other INI files."""

from pathlib import Path

import pytest
from tests.migrate.checks import (
    check_finding,
    check_noop,
    check_rewrite,
    check_silence,
    invoke,
)

from mdstorm_migrate.api import migrate
from mdstorm_migrate.cli.migrate import migrate as command


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            'setup(name="petastorm", install_requires=["petastorm>=0.9", "numpy"])\n',
            'setup(name="petastorm", install_requires=["mdstorm", "numpy"])\n',
        ),
        (
            "spark = ['h5py', 'petastorm[torch]==0.11.5', 'pyarrow']\n",
            "spark = ['h5py', 'mdstorm[torch]', 'pyarrow']\n",
        ),
        ("REQUIRED = ('petastorm',)\n", "REQUIRED = ('mdstorm',)\n"),
        ('extra = "petastorm>=0.9"\n', 'extra = "mdstorm"\n'),
    ],
)
def test_requirements_of_a_setup_script_are_renamed(before: str, after: str) -> None:
    check_rewrite(before, after, "setup.py")


@pytest.mark.parametrize(
    "text",
    [
        'engine = "petastorm"\n',
        'here = ["petastorm/data"]\n',
        'setup(packages=["petastorm_x"])\n',
        'setup(packages=["petastorm"], keywords=["petastorm"])\n',
        'packages = ["petastorm"]\n',
        'setup(packages=find_packages(exclude=["petastorm"]))\n',
    ],
)
def test_other_strings_of_a_setup_script_stay(text: str) -> None:
    check_noop(text, "setup.py")


@pytest.mark.parametrize(
    ("item", "is_moved"),
    [
        ("'petastorm==0.12.1', 'dataclasses; python_version<\"3.7\"'", True),
        ("'petastorm', \"dataclasses ; python_version < '3.7'\"", True),
        ("'petastorm; sys_platform==\"linux\"', 'x; python_version<\"3.8\"'", True),
        ("'x; python_version<\"3.8\"', 'petastorm>=0.9'", True),
        ("'petastorm==0.9 ; python_version<\"3.8\"', 'x'", False),
        ("'petastorm; python_version<\"3\"', 'x'", False),
        ("'petastorm; python_version<=\"2.7\"', 'x'", False),
        ("'petastorm (>=0.9); python_version<\"3.8\"', 'x'", False),
        ('\'petastorm[torch]; os_name=="nt" and python_version=="3.8"\'', False),
    ],
)
def test_the_marker_of_another_requirement_is_its_own(item: str, is_moved: bool) -> None:
    text = f"setup(install_requires=[{item}])\n"
    result = migrate(text, path="setup.py", todo=False)
    assert ("mdstorm" in result.output) == is_moved


def test_strings_of_other_modules_are_no_requirements() -> None:
    check_noop('names = ["petastorm>=0.9"]\n', "module.py")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "[options]\ninstall_requires =\n    petastorm[torch]>=0.9\n    numpy\n",
            "[options]\ninstall_requires =\n    mdstorm[torch]\n    numpy\n",
        ),
        ("[testenv]\ndeps = petastorm==0.9\n", "[testenv]\ndeps = mdstorm\n"),
        (
            "[options.extras_require]\nall = numpy\npeta = petastorm\n[x]\ny = petastorm\n",
            "[options.extras_require]\nall = numpy\npeta = mdstorm\n[x]\ny = petastorm\n",
        ),
        ("commands = pip install petastorm x\n", "commands = pip install mdstorm x\n"),
        ("[testenv]\ndeps =\n    py39: petastorm\n", "[testenv]\ndeps =\n    py39: mdstorm\n"),
    ],
)
def test_ini_files_are_rewritten(before: str, after: str) -> None:
    check_rewrite(before, after, "tox.ini")


def test_entry_points_and_comments_stay() -> None:
    check_noop("[entry]\nx =\n    petastorm = a.b:c\n# petastorm\n", "setup.cfg")


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ('dbutils.library.installPyPI("petastorm", version="0.9.8")\n', '"petastorm"'),
        ('run([python, "-m", "pip", "install", "petastorm==0.12.1"])\n', '"petastorm==0.12.1"'),
        ('os.system("pip install petastorm")\n', '"pip install petastorm"'),
        ('run([python, "-m", "pip", "install", "petastorm"])\n', '"petastorm"'),
        ('magic("pip", "install petastorm==0.11")\n', '"install petastorm==0.11"'),
        ('ray.init(runtime_env={"pip": ["petastorm"]})\n', '"petastorm"'),
        ('log_model(pip_requirements=["torch", "petastorm"])\n', '"petastorm"'),
        ('x = {"pypi": {"package": "petastorm"}}\n', '"petastorm"'),
        ('dependencies.add_pip_package("petastorm")\n', '"petastorm"'),
        ('image.debian_slim().pip_install(["torch", "petastorm"])\n', '"petastorm"'),
        ('@udf(packages=["petastorm"])\ndef f(): ...\n', '"petastorm"'),
        ('NAME = "petastorm"\nsession.install(NAME)\n', '"petastorm"'),
        ('NAMES = ["petastorm"]\nsession.install(*NAMES)\n', '"petastorm"'),
        ('for n in ["petastorm"]:\n    run(["pip", "install", n])\n', '"petastorm"'),
        ('for n in ["petastorm"]:\n    run(f"pip install {n}")\n', '"petastorm"'),
        ('NEEDED = "petastorm==0.11 torch".split()\n', '"petastorm==0.11 torch"'),
        ('NEEDED = "petastorm==0.11\\ntorch"\n', '"petastorm==0.11\\ntorch"'),
        (
            '@conda(libraries={"conda-forge::petastorm": ">=0.11"})\ndef f(): ...\n',
            '"conda-forge::petastorm"',
        ),
        ('upload(additional_packages={"petastorm": "0.11.3"})\n', '"petastorm"'),
        (
            '@task.virtualenv(requirements="petastorm\\ntorch")\ndef f(): ...\n',
            '"petastorm\\ntorch"',
        ),
        ('run(requirements="torch petastorm")\n', '"torch petastorm"'),
    ],
)
def test_a_program_that_installs_petastorm_needs_manual_review(text: str, fragment: str) -> None:
    check_noop(text)
    check_finding(text, "PM403", fragment)


@pytest.mark.parametrize(
    "text",
    [
        'sc.addPyFile("dbfs:/libs/petastorm-0.12.1.zip")\n',
        'load(".reader", package="petastorm")\n',
        'lazy.import_module(".reader", package="petastorm")\n',
    ],
)
def test_what_installs_nothing_is_said_once_or_not_at_all(text: str) -> None:
    assert "PM403" not in {found.rule for found in migrate(text).findings}


def test_a_list_of_several_requirements_gets_one_of_mdstorm_beside(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        "from petastorm.unischema import _NamedtupleCache\nfrom petastorm import make_reader\n"
    )
    setup = tmp_path / "setup.py"
    old = """'petastorm>=0.9; python_version<"3.11"', 'petastorm>=0.12; python_version>="3.11"'"""
    setup.write_text(f"setup(extras_require=dict(petastorm=[{old}]))\n")
    tox = tmp_path / "tox.ini"
    tox.write_text("[testenv]\ndeps =\n    a: petastorm==0.12.1\n    b: petastorm==0.13.1\n")
    invoke(command, tmp_path, "-w", "--unsafe", "-q")
    assert f"petastorm=['mdstorm', 'pyarrow<15', 'numpy<2', {old}]" in setup.read_text()
    assert (
        tox.read_text().count("    b: mdstorm\n") == tox.read_text().count("    a: mdstorm\n") == 1
    )


@pytest.mark.parametrize(
    "text",
    [
        'options = {"engines": ["petastorm"]}\n',
        'load("petastorm")\n',
        'NAME = "petastorm"\nprint([NAME])\n',
        'NAMES = ["petastorm"]\nfor n in NAMES: print(n)\n',
        'hooks.install(engine="petastorm")\n',
        'run(requirements="a cluster with petastorm")\n',
        'setup(packages=["petastorm"])\n',
        'page = "https://github.com/uber/petastorm/blob/master/petastorm/reader.py"\n',
        'image = "registry.acme.io/ml/petastorm:0.12.1"\n',
    ],
)
def test_values_that_are_no_requirements_stay(text: str) -> None:
    assert "PM403" not in {found.rule for found in migrate(text).findings}


def test_what_docstrings_say_of_installing_is_prose() -> None:
    assert migrate('"""pip install petastorm"""\n').findings == ()


def test_packages_in_json_within_a_string_need_manual_review() -> None:
    string = """'{"conf": {"packages": "numpy==1, petastorm==0.11.4"}}'"""
    text = f"import petastorm\nget_ipython().run_cell_magic('configure', '-f', {string})\n"
    check_finding(text, "PM403", string)
    prose = "'it says: petastorm==0.11.4 is installed'"
    check_silence(f"print({prose})\n")


@pytest.mark.parametrize(
    ("text", "is_list"),
    [
        ("f.write('petastorm\\ns3fs\\n')", True),
        ("Path(p).write_text('numpy>=1.2\\npetastorm\\n')", True),
        ("print('petastorm\\ns3fs\\n')", False),
        ("f.write('petastorm\\n')", False),
        ("f.write('petastorm\\nreads a dataset\\n')", False),
    ],
)
def test_lists_of_requirements_that_are_written_need_manual_review(
    text: str, is_list: bool
) -> None:
    assert any(found.rule == "PM403" for found in migrate(text).findings) == is_list


@pytest.mark.parametrize(
    ("text", "is_told"),
    [
        ("NAME = 'petastorm'\nsetup(install_requires=['%s==%s' % (NAME, VERSION)])\n", True),
        ("NAME = 'petastorm'\nREQUIRES.append(NAME + '>=0.9')\n", True),
        ("NAME = 'petastorm'\nREQUIRES = ['numpy', NAME]\n", True),
        ("setup(dependency_links=['git+https://x.org/petastorm.git#egg=petastorm-0.9'])\n", True),
        ("NAME = 'petastorm'\nsetup(name=NAME, packages=[NAME])\n", False),
        ("setup(name='x', url='https://github.com/me/petastorm')\n", False),
    ],
)
def test_a_setup_script_names_petastorm_in_other_ways(text: str, is_told: bool) -> None:
    check_noop(text, "setup.py")
    found = migrate(text, path="setup.py").findings
    assert any(one.rule == "PM403" and one.cls == "manual" for one in found) == is_told


def test_a_fork_in_dependency_links_is_to_be_reviewed() -> None:
    link = "git+ssh://git@x.org/petastorm.git#egg=petastorm-0.2"
    text = f"setup(install_requires=['petastorm==0.2'], dependency_links=['{link}'])\n"
    result = check_noop(text, "setup.py")
    said = [one.remedy for one in result.findings if one.rule == "PM403"]
    assert len(said) == 2
    assert all("after a review of what" in one for one in said)


@pytest.mark.parametrize("name", ["", "train"])
def test_markers_in_names_of_extras_count(name: str) -> None:
    old = f"""setup(extras_require={{'{name}:python_version<"3.10"': ["petastorm<0.12"]}})\n"""
    check_noop(old, "setup.py")
    check_finding(old, "PM403", "petastorm<0.12", "setup.py")
    new = old.replace("<", ">", 1)
    check_rewrite(new, new.replace("petastorm<0.12", "mdstorm"), "setup.py")


@pytest.mark.parametrize(
    "call",
    ['ImageSpec(conda_packages=("petastorm",))', 'session.conda_install("petastorm")'],
)
def test_packages_of_conda_need_manual_review(call: str) -> None:
    check_finding(f"{call}\n", "PM403", '"petastorm"')


@pytest.mark.parametrize(
    "text",
    [
        'run(env={"EXTRA_PIP_PACKAGES": "petastorm==0.12.1 s3fs"})\n',
        'os.environ["_PIP_ADDITIONAL_REQUIREMENTS"] = "s3fs petastorm"\n',
        'PIP_PACKAGES = "petastorm s3fs"\n',
        'os.environ.setdefault("PIP_PACKAGES", "petastorm[torch] s3fs")\n',
        'extra = "petastorm==0.12.1 s3fs"\n',
    ],
)
def test_several_requirements_in_one_string(text: str) -> None:
    (found,) = migrate(text, todo=False).findings
    assert (found.rule, found.cls) == ("PM403", "manual")


@pytest.mark.parametrize(
    "text",
    [
        'title = "petastorm s3fs"\n',
        'warn("petastorm>=0.12 s3fs")\n',
        'message = "petastorm>=0.12 is required"\n',
        'links = {"issue": ("https://github.com/uber/petastorm/issues/%s", "#%s")}\n',
    ],
)
def test_sentences_and_links_require_nothing(text: str) -> None:
    check_silence(text)


def test_commands_are_data_where_nothing_runs_them() -> None:
    text = 'SAMPLES = ["pip install petastorm"]\n'
    assert [one.cls for one in migrate(text).findings] == ["note"]
    for more in ("import subprocess\nsubprocess.run(SAMPLES)\n", "import petastorm\n"):
        assert "manual" in [one.cls for one in migrate(text + more).findings]


TOX = "[testenv]\ndeps =\n    {}: petastorm>=0.11,<0.12\n    {}: petastorm>=0.12\n    pytest\n"


def test_factors_that_choose_a_version_are_named_once() -> None:
    result = migrate(TOX.format("peta11", "py310-peta12"), path="tox.ini")
    (found,) = [one for one in result.findings if one.rule == "PM403"]
    assert (found.cls, found.line) == ("manual", 3)
    assert "`peta11`, `py310-peta12` choose a version of Petastorm" in result.output
    assert migrate(result.output, path="tox.ini").output == result.output


@pytest.mark.parametrize(
    "text",
    [
        TOX.format("py39", "!py39"),
        "[testenv]\ndeps =\n    spark: petastorm\n    tf: petastorm\n",
        "[testenv:a]\ndeps =\n    a: petastorm>=0.11\n[testenv:b]\ndeps =\n    b: petastorm<1\n",
    ],
)
def test_other_factors_are_left_alone(text: str) -> None:
    result = check_rewrite(text, migrate(text, path="tox.ini").output, "tox.ini")
    assert result.findings == ()


@pytest.mark.parametrize(
    ("deps", "after"),
    [
        ("petastorm>=0.11\n petastorm", "mdstorm\n six\n mdstorm"),
        ("a: petastorm\n b: petastorm", "a: mdstorm\n a: six\n b: mdstorm\n b: six"),
    ],
)
def test_what_came_in_through_petastorm_is_required_once_a_list(
    deps: str, after: str, tmp_path: Path
) -> None:
    (tmp_path / "a.py").write_text("import six\nfrom petastorm import make_reader\n")
    path = tmp_path / "tox.ini"
    path.write_text(f"[testenv]\ndeps =\n {deps}\n pytest\n")
    invoke(command, "-w", "-j", "1", tmp_path)
    assert path.read_text() == f"[testenv]\ndeps =\n {after}\n pytest\n"


def test_mdstorm_beside_petastorm_is_for_the_same_environments(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("from petastorm import make_reader\n")
    (tmp_path / "b.py").write_text("from horovod.spark.keras import KerasEstimator\n")
    path = tmp_path / "tox.ini"
    path.write_text("[testenv]\ndeps =\n    pytest\n    spark: petastorm==0.9.8\n")
    invoke(command, "-w", "-j", "1", tmp_path)
    beside = "".join(f"    spark: {one}\n" for one in ("mdstorm", "pyarrow<15", "numpy<2"))
    assert path.read_text().endswith(f"    spark: petastorm==0.9.8\n{beside}")


@pytest.mark.parametrize("head", ["[tox]\nenvlist = py311\n\n", "# ours\n[testenv:a]\n"])
def test_settings_of_tox_are_recognised_under_any_name(head: str) -> None:
    text = head.rstrip() + "\n[testenv]\ndeps =\n    {}\n[isort]\nknown_third_party = {}\n"
    before = text.format("petastorm==0.11", "petastorm")
    check_rewrite(before, text.format("mdstorm", "mdstorm"), "app.ini")
    check_noop(before, "app.toml")
