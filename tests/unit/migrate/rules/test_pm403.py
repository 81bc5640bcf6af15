"""PM403: ``setup.py``, ``setup.cfg``, and code that installs packages."""

import re
from pathlib import Path

from tests.kit.migrating import (
    check_finding,
    check_held,
    check_moves,
    check_noop,
    check_rewrite,
    each,
    run,
    write_modules,
)

from mdstorm_migrate.api import migrate
from mdstorm_migrate.run.outcome import Settings


@each(
    "setup(install_requires=['{}'])\n",
    'REQ = ["{}", "numpy<1.20"]\nsetup(install_requires=REQ)\n',
    'EXTRAS = {{"train": ["{}"]}}\nsetup(extras_require=EXTRAS)\n',
    'REQUIRED = "{}"\nsetup(install_requires=[REQUIRED])\n',
    'setup(install_requires="{}")\n',
    'setup(extras_require={{"train": "{}"}})\n',
    'setup(install_requires="""\nnumpy\n{}\n""".split("\\n"))\n',
    'def listed():\n    return ["{}"]\nsetup(tests_require=listed())\n',
    'options = {{}}\noptions["install_requires"] = ["{}"]\n',
    'X = {{"core": ["{}"]}}\nfor one in X["core"]:\n    setup(install_requires=[one])\n',
)
def test_setup_py_requirements_are_renamed(text: str) -> None:
    check_rewrite(text.format("petastorm[torch]>=0.9"), text.format("mdstorm[torch]"), "setup.py")


@each(
    'setup(install_requires="{}", keywords="petastorm", package_dir={{"": "petastorm"}})\n',
    'setup(name="x", extras_require={{"petastorm": "{}"}}, packages="petastorm")\n',
    'setup(install_requires="{}", packages=find_packages("petastorm"))\n',
    'uninstall_package("petastorm"), setup(install_requires="{}")\n',
    'setup(install_requires="{}", namespace_packages="petastorm")\n',
)
def test_bare_setup_py_requirements_outside_lists_are_renamed(text: str) -> None:
    expected = text.format("mdstorm")
    assert migrate(text.format("petastorm"), path="setup.py", todo=False).output == expected


@each(
    ("setup.py", 'setup(packages=["petastorm"], keywords=["petastorm"])\n'),
    ("setup.py", 'setup(name="petastorm", description="uses petastorm")\n'),
    ("setup.py", '"""Requires petastorm==0.12."""\n'),
    ("setup.cfg", "[metadata]\nname = petastorm\n[tool:pytest]\nmarkers =\n    x: petastorm\n"),
)
def test_other_strings_in_packaging_files_are_unchanged(path: str, text: str) -> None:
    check_noop(text, path)


@each(
    ('R = ["petastorm==" + VERSION]\n', '"petastorm=="'),
    ('R = [f"petastorm=={V}"]\n', 'f"petastorm=={V}"'),
    ('R = ["petastorm @ git+https://host/x"]\n', '"petastorm @ git+https://host/x"'),
    ('L = ["git+https://host/petastorm.git"]\n', "git+https://host/petastorm.git"),
    ('@pypi(packages={"petastorm": "0.12"})\ndef f(): ...\n', '"petastorm"'),
)
def test_computed_or_url_requirement_in_setup_py_needs_manual_review(
    text: str, fragment: str
) -> None:
    check_held(text, "PM403", fragment, "setup.py")


@each("REQ = '''petastorm\nnumpy'''\n", "REQ = '''\nnumpy\npetastorm\n'''\n")
def test_requirements_in_lines_of_string_keep_code_around_them(text: str, tmp_path: Path) -> None:
    head = "import pandas\nfrom petastorm import make_reader\n"
    code = f"{head}{text}session.install(REQ.split())\n"
    write_modules(tmp_path, a=code)
    settings = Settings(index="https://host/simple", todo=False)
    (found,) = run([tmp_path / "a.py"], settings)
    output = found.outcome.after.decode()
    expected = code.replace("petastorm", "mdstorm")
    assert output in (expected, expected.replace("\nmdstorm\n", "\npandas\nmdstorm\n"))


def test_command_in_ini_file_installs_mdstorm() -> None:
    text = "[testenv]\ncommands =\n    pip install {}\n"
    check_rewrite(text.format("petastorm>=0.9"), text.format("mdstorm"), "tox.ini")


@each(
    'dbutils.library.installPyPI("{}")\n',
    'dbutils.library.installPyPI(pypiPackage="{}")\n',
    'run([python, "-m", "pip", "install", "{}"])\n',
    'os.system("pip install -q {} numpy==1.19")\n',
    'ray.init(runtime_env={{"pip": ["{}", "torch"]}})\n',
    '@component(packages_to_install=["{}"])\ndef f(): ...\n',
    'log_model(extra_pip_requirements=["{}"])\n',
    'session.install("{}")\n',
    'pip.main(["install", "{}"])\n',
    'run(["uv", "pip", "install", "{}"])\n',
    'session.run("python", "-m", "pip", "install", "{}")\n',
    'dependencies.add_pip_package("{}")\n',
    "@task.virtualenv(requirements=['{}'])\ndef f(): ...\n",
    'libraries = [{{"pypi": {{"package": "{}"}}}}]\n',
    'Library(pypi=PythonPyPiLibrary(package="{}"))\n',
)
def test_install_command_in_code_installs_mdstorm(text: str) -> None:
    check_rewrite(text.format("petastorm"), text.format("mdstorm"), "module.py")
    check_rewrite(text.format("petastorm==0.12.1"), text.format("mdstorm"), "module.py")


@each(
    'session.conda_install("petastorm")\n',
    'CondaDependencies.create(conda_packages=["petastorm==0.11"])\n',
    'log_model(conda_env={"dependencies": ["petastorm", {"pip": ["mlflow"]}]})\n',
    'conda_install("conda-forge::petastorm")\n',
    'run(["conda", "install", "-y", "petastorm"])\n',
    'run("mamba install petastorm", shell=True)\n',
    'session.run("conda", "install", "petastorm")\n',
)
def test_conda_install_in_code_needs_manual_review(text: str) -> None:
    check_noop(text, "module.py")
    fragment = "petastorm==0.11" if "0.11" in text else "petastorm"
    check_finding(text, "PM403", fragment, "module.py")


@each("python3 -m {}.etl.dataset_metadata a", "pip install {0} && python -c 'import {0}.reader'")
def test_command_line_in_code_runs_mdstorm(command: str) -> None:
    before, after = (f'run("{command.format(name)}")\n' for name in ("petastorm", "mdstorm"))
    check_rewrite(before, after, "module.py")


LOADS = "from petastorm.pytorch import DataLoader\n"


@each(
    'raise Error("run: pip install petastorm") from None\n',
    'raise Error("install it: pip install -U torch petastorm")\n',
    'TEXT = "pip install petastorm"\ndef f(): raise Error(TEXT)\n',
    'with raises(Error, match=r".*pip install petastorm"): f()\n',
    'self.assertRaisesRegex(Error, "pip install petastorm", f)\n',
    'assert re.search("pip install petastorm", text)\n',
    'assert "pip install petastorm" in str(error.value)\n',
    'assert str(error.value) == "to read, pip install petastorm"\n',
    'logger.warning("not found: pip install petastorm")\n',
)
def test_message_and_what_is_compared_with_it_name_mdstorm_without_extras(text: str) -> None:
    check_moves(LOADS + text, "module.py")


@each(
    'run("pip install {}")\n',
    'assert run("pip install {}") == 0\n',
    'assert commands[0] == "pip install {}"\n',
    'TEXT = "pip install {}"\nrun(TEXT)\n',
)
def test_command_in_code_installs_extras(text: str) -> None:
    after = LOADS.replace("petastorm", "mdstorm") + text.format("'mdstorm[torch]'")
    check_rewrite(LOADS + text.format("petastorm"), after, "module.py")


@each(
    'with raises(Error, match=r"pip install petastorm\\[torch\\]"): f()\n',
    'with raises(Error, match=r"pip install petastorm==0\\.12"): f()\n',
)
def test_pattern_with_extras_or_version_needs_manual_review(text: str) -> None:
    check_rewrite(LOADS + text, LOADS.replace("petastorm", "mdstorm") + text, todo=False)
    assert any(one.rule == "PM403" for one in migrate(LOADS + text).findings)


def test_sentence_after_install_command_in_message_is_unchanged() -> None:
    text = 'raise Error("pip install clicks needs petastorm")\n'
    check_rewrite(LOADS + text, LOADS.replace("petastorm", "mdstorm") + text)


@each(
    'log.info("petastorm: reading file:///data/petastorm batch=%d", n)\n',
    'print("petastorm url=file:///tmp/petastorm")\n',
    "print(f\"petastorm {make_reader('file:///tmp/petastorm')=}\")\n",
)
def test_message_with_an_address_requires_nothing(text: str) -> None:
    check_noop(text)
    assert not [one for one in migrate(text).findings if one.rule == "PM403"]


@each('version="0.9.8"', "version=PINNED", '"0.9.8"')
def test_separate_version_argument_is_removed(version: str) -> None:
    before = f'dbutils.library.installPyPI("petastorm", {version}, repo="x")\n'
    check_rewrite(before, 'dbutils.library.installPyPI("mdstorm", repo="x")\n', "module.py")


@each(
    'engine = "petastorm"\n',
    'CELLS = """%pip install petastorm==0.8.2\nfrom petastorm import make_reader"""\n',
    'print("please install petastorm first")\n',
    'names = ["petastorm", "arrow"]\n',
    'packages = {"petastorm": 1}[x]\nspeed = {"petastorm": "3.1"}\n',
    'REQUIRED = ["petastorm", "torch"]\n',
    'raise ImportError("needs petastorm>=0.7: pip install reco[petastorm]")\n',
    'files = files(package="petastorm"), {"package": "petastorm"}\n',
    # functions that look up a module by its name, and options of the project
    '@requires_packages("petastorm", "torch")\ndef f(): ...\n',
    'check_dependencies(["petastorm"])\nif not is_installed("petastorm"): ...\n',
    'raise MissingDependencyError("petastorm", "0.12.1")\n',
    'run(library="petastorm", libraries=["petastorm", "webdataset"])\n',
    'LIBRARIES = {"petastorm": f, "webdataset": g}\n',
    # names of plugins and tasks, and packages of other tools
    'registry.install("petastorm", loader=f)\nStep(dependencies=["petastorm"])\n',
    'run(["apt-get", "install", "petastorm"])\nrun(["helm", "install", "petastorm"])\n',
)
def test_other_strings_in_code_are_unchanged(text: str) -> None:
    check_noop(text, "module.py")


OPERATOR = "PythonVirtualenvOperator(task_id='t', python_callable=f, {}={})\n"


@each(
    # lists that reach an installing call through variables
    "REQS = ['petastorm==0.12.1', 'torch']\n" + OPERATOR.format("requirements", "REQS"),
    "R = ('petastorm==0.12.1',)\n" + OPERATOR.format("requirements", "list(R)"),
    "X = ['petastorm']\nY = X + ['torch']\n" + OPERATOR.format("requirements", "[*Y, 'a']"),
    "X = ['torch']\nX += ['petastorm>=0.12']\n" + OPERATOR.format("requirements", "X"),
    "X = ('petastorm',) + ('torch',)\n" + OPERATOR.format("requirements", "X"),
    "def f():\n    a = 'petastorm==0.12'\n    session.install(a)\n",
)
def test_requirement_in_variable_is_rewritten(text: str) -> None:
    after = re.sub(r"petastorm(\[torch\])?([=>]=[\d.]+)?", r"mdstorm\1", text)
    check_rewrite(text, after)


@each(
    "session.install(f'petastorm=={v}')\n",
    "session.install('petastorm==' + v)\n",
    "session.install('petastorm' + version)\n",
    "session.install('petastorm==%s' % v, 'torch')\n",
    "session.install('%s==%s' % ('petastorm', v))\n",
    "NAME = 'petastorm'\nsession.install(NAME + v)\n",
    "NAME = 'petastorm'\nREQS = ['torch']\nREQS.append(f'{NAME}=={v}')\n"
    + OPERATOR.format("requirements", "REQS"),
    "session.install('petastorm=={}'.format(v))\n",
    "REQS = [f'petastorm[torch]=={v}']\n" + OPERATOR.format("requirements", "REQS"),
)
def test_requirement_with_version_from_variable_gets_todo_comment(text: str) -> None:
    check_noop(text)
    assert "# TODO(mdstorm): PM403: " in migrate(text).output


@each(
    "MODULES = ['petastorm']\nfor one in MODULES: import_module(one)\n",
    "packages = ['petastorm']\nfor one in packages: import_module(one)\n",
    "def f(reqs): install(reqs)\nreqs = 'petastorm'\nprint(reqs)\n",
)
def test_string_in_variable_that_installs_nothing_is_unchanged(text: str) -> None:
    check_noop(text)
    assert not any(one.rule == "PM403" for one in migrate(text).findings)


@each(
    "names = ['petastorm==0.12']\nprint(names)\n",
    "PIP_PACKAGES = ['petastorm==0.12.1']\n",
    "packages = ['petastorm==0.12.1']\nrun(packages=packages)\n",
    "install({'version': 'x'}, env={'LIBRARY': 'petastorm==0.12'})\n",
    "write('''\nnumpy\npetastorm>=0.11\n''')\n",
    "@pypi(packages={'petastorm': '0.12'})\ndef f(): ...\n",
    "install_package('conda-forge::petastorm')\n",
    "register(env='petastorm>=0.11')\n",
    "LOCKED = {'train': 'petastorm[torch]==0.12.1'}\n",
)
def test_requirement_that_nothing_is_known_to_install_gets_todo_comment(text: str) -> None:
    check_noop(text)
    assert "# TODO(mdstorm): PM403: " in migrate(text).output


def test_search_for_petastorm_in_words_of_command_needs_manual_review() -> None:
    check_held('session.run("pip", "show", "petastorm")\n', "PM403", "petastorm", "noxfile.py")
