"""``setup.py``, ``setup.cfg``, and code that installs."""

import pytest
from tests.migrate.checks import check_finding, check_noop, check_rewrite


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("setup(install_requires=['petastorm>=0.9'])\n", "setup(install_requires=['mdstorm'])\n"),
        ('REQ = ["petastorm", "numpy<1.20"]\n', 'REQ = ["mdstorm", "numpy<1.20"]\n'),
        (
            'EXTRAS = {"train": ["petastorm[torch]==0.12"]}\n',
            'EXTRAS = {"train": ["mdstorm[torch]"]}\n',
        ),
        ('REQUIRED = "petastorm==0.9"\n', 'REQUIRED = "mdstorm"\n'),
        (
            "setup(install_requires=['petastorm', 'dataclasses; python_version<\"3.7\"'])\n",
            "setup(install_requires=['mdstorm', 'dataclasses; python_version<\"3.7\"'])\n",
        ),
    ],
)
def test_requirements_of_a_setup_script_are_renamed(before: str, after: str) -> None:
    check_rewrite(before, after, "setup.py")


@pytest.mark.parametrize(
    "text",
    [
        'setup(packages=["petastorm"], keywords=["petastorm"])\n',
        "packages = find_packages(exclude=['petastorm'])\n",
        'setup(name="petastorm", description="uses petastorm")\n',
        '"""Requires petastorm==0.12."""\n',
    ],
)
def test_other_strings_of_a_setup_script_stay(text: str) -> None:
    check_noop(text, "setup.py")


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ('R = ["petastorm==" + VERSION]\n', '"petastorm=="'),
        ('R = [f"petastorm=={V}"]\n', 'f"petastorm=={V}"'),
        ('R = ["petastorm @ git+https://host/x"]\n', "petastorm @ git+https://host/x"),
        (
            'L = ["git+https://github.com/uber/petastorm.git"]\n',
            "git+https://github.com/uber/petastorm.git",
        ),
    ],
)
def test_what_is_put_together_or_comes_from_elsewhere_needs_manual_review(
    text: str, fragment: str
) -> None:
    check_noop(text, "setup.py")
    check_finding(text, "PM403", fragment, "setup.py")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "[options]\ninstall_requires =\n    petastorm>=0.9\n    numpy\n",
            "[options]\ninstall_requires =\n    mdstorm\n    numpy\n",
        ),
        (
            "[options.extras_require]\ntrain = petastorm[tf]\n",
            "[options.extras_require]\ntrain = mdstorm[tf]\n",
        ),
        ("[testenv]\ndeps = petastorm==0.12\n", "[testenv]\ndeps = mdstorm\n"),
        (
            "[testenv]\ncommands =\n    pip install petastorm\n",
            "[testenv]\ncommands =\n    pip install mdstorm\n",
        ),
    ],
)
def test_requirements_of_ini_files_are_renamed(before: str, after: str) -> None:
    check_rewrite(before, after, "tox.ini" if "testenv" in before else "setup.cfg")


def test_the_name_of_a_project_is_no_requirement() -> None:
    check_noop(
        "[metadata]\nname = petastorm\n[tool:pytest]\nmarkers =\n    x: petastorm\n", "setup.cfg"
    )


@pytest.mark.parametrize(
    "text",
    [
        'dbutils.library.installPyPI("{}", version="0.9.8")\n',
        'run([python, "-m", "pip", "install", "{}"])\n',
        'os.system("pip install -q {} numpy==1.19")\n',
        'ray.init(runtime_env={{"pip": ["{}", "torch"]}})\n',
        '@udf(packages=["{}"])\ndef f(): ...\n',
        'session.install("{}")\n',
        "@task.virtualenv(requirements=['{}'])\ndef f(): ...\n",
    ],
)
@pytest.mark.parametrize("requirement", ["petastorm", "petastorm==0.12.1"])
def test_code_that_installs_petastorm_installs_mdstorm(text: str, requirement: str) -> None:
    check_rewrite(text.format(requirement), text.format("mdstorm"), "module.py")


@pytest.mark.parametrize(
    "text",
    [
        'engine = "petastorm"\n',
        'print("please install petastorm first")\n',
        'names = ["petastorm", "arrow"]\n',
        'names = ["petastorm>=0.9"]\n',
        'REQUIRED = ["petastorm", "torch"]\n',
        'raise ImportError("needs petastorm>=0.7")\n',
    ],
)
def test_other_strings_of_code_stay(text: str) -> None:
    check_noop(text, "module.py")
