"""Requirements in places that no rule knows, and those that code puts together."""

from __future__ import annotations

import pytest
from tests.migrate.checks import check_finding, check_noop, check_rewrite, check_silence

from mdstorm_migrate.api import migrate


@pytest.mark.parametrize(
    ("text", "path", "rule"),
    [
        ("env:\n  PACKAGES: petastorm==0.12 numpy\n", "ci.yml", "PM409"),
        ("environment:\n  - P=petastorm==0.12\n", "compose.yaml", "PM409"),
        ('{"args": {"x": "petastorm==0.12"}}', "job.json", "PM409"),
        ("cat > r.txt <<EOF\npetastorm==0.12\nEOF\n", "a.sh", "PM406"),
        ("$ petastorm==0.12\n", "notes", "PM413"),
    ],
)
def test_they_are_reported(text: str, path: str, rule: str) -> None:
    check_finding(text, rule, "petastorm==0.12", path)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("# petastorm==0.12\n", "ci.yml"),
        ("engine: petastorm\n", "ci.yml"),
        ("run: |\n  pip install a\n  cd petastorm\n", "ci.yml"),
        ("run: |\n  pip install mdstorm\n  python -c 'from petastorm import x'\n", "ci.yml"),
        ("echo using petastorm==0.12\n", "a.sh"),
        ('resource "databricks_library" "petastorm" {\n}\n', "main.tf"),
        ("RUN echo ${PETASTORM} $PETASTORM $(petastorm)\n", "Dockerfile"),
    ],
)
def test_words_are_not(text: str, path: str) -> None:
    check_noop(text, path)
    assert not any("seems to require" in one.message for one in migrate(text, path=path).findings)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("pip install petastorm==${{ matrix.v }} x\n", "pip install mdstorm x\n"),
        ("pip install petastorm==$[[ inputs.v ]] x\n", "pip install mdstorm x\n"),
        ("pip install petastorm=={{ v }} x\n", "pip install mdstorm x\n"),
        ('pip install "petastorm==${V:-0.12}" x\n', 'pip install "mdstorm" x\n'),
        ("pip install $PETASTORM petastorm\n", "pip install $PETASTORM mdstorm\n"),
    ],
)
def test_variables_of_templates_are_part_of_a_version(before: str, after: str) -> None:
    check_rewrite(before, after, "a.sh")


@pytest.mark.parametrize(
    "requirement",
    [
        '"petastorm==%s" % VERSION',
        '"petastorm==%(v)s" % versions',
        'f"petastorm=={VERSION}"',
        '"petastorm==" + VERSION',
        '"petastorm" + VERSION',
        '"petastorm>={},<{}".format(LOW, HIGH)',
        '"petastorm==" "0.12"',
    ],
)
def test_a_setup_script_may_put_one_together(requirement: str) -> None:
    text = "setup(install_requires=[{}, 'numpy'])\n"
    check_rewrite(text.format(requirement), text.format('"mdstorm"'), "setup.py")


def test_extras_stay_in_it_and_markers_need_review() -> None:
    text = 'R = [f"petastorm[torch]=={V}"]\n'
    check_rewrite(text, 'R = ["mdstorm[torch]"]\n', "setup.py")
    marker = '''f"petastorm=={V}; python_version > '3.8'"'''
    check_finding(f"R = [{marker}]\n", "PM403", marker, "setup.py")


@pytest.mark.parametrize(
    "text",
    [
        'x = "petastorm" + "_cache"\n',
        'x = f"{a}/petastorm"\n',
        'x = "petastorm %s" % a\n',
        'log.info("petastorm: {}".format(a))\n',
    ],
)
def test_other_texts_that_are_put_together_stay(text: str) -> None:
    check_noop(text, "setup.py")
    check_noop(text, "code.py")


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ('run(f"pip install petastorm=={V}")\n', '"pip install petastorm=="'),
        ('session.install("petastorm==" + V)\n', '"petastorm=="'),
        ('session.conda_install("petastorm=0.11.5")\n', '"petastorm=0.11.5"'),
        ('session.run("pip", "install", "petastorm")\n', '"petastorm"'),
        ('init({"pip": {"packages": ["petastorm"]}})\n', '"petastorm"'),
    ],
)
def test_code_that_installs_it_needs_review(text: str, fragment: str) -> None:
    if fragment.startswith('"pip'):  # the place of a part of an f-string is that of the whole
        fragment = text[4:-2]
    check_finding(text, "PM403", fragment, "code.py")


@pytest.mark.parametrize("extras", ["petastorm", "torch, petastorm"])
def test_an_extra_of_another_distribution_requires_nothing(extras: str) -> None:
    check_noop(f"pip install ours[{extras}]\n", "a.sh")
    check_silence(f'raise RuntimeError("pip install ours[{extras}]")\n')


def test_a_variable_that_chose_petastorms_version_is_named() -> None:
    text = "ARG V=0.12.1\nRUN pip install petastorm==${V}\n"
    found = [one for one in migrate(text, path="Dockerfile").findings if one.cls == "note"]
    assert [text[one.start : one.stop] for one in found] == ["V"]


def test_a_requirement_for_old_pythons_alone_is_to_be_replaced() -> None:
    text = 'petastorm==0.11.4 ; python_version < "3.10"\n'
    (found,) = (one for one in migrate(text, path="requirements.txt").findings if one.remedy)
    assert "require mdstorm for Python 3.10 and newer" in (found.remedy or "")
    both = f'{text}mdstorm; python_version >= "3.10"\n'
    (found,) = (one for one in migrate(both, path="requirements.txt").findings if one.remedy)
    assert "remove it" in (found.remedy or "")


@pytest.mark.parametrize(
    "command",
    [
        "pip uninstall -y petastorm==0.9.2",
        "pip uninstall -y \\\n  petastorm==0.9.2",
        'databricks libraries uninstall --cluster-id "$C" --pypi-package "petastorm==0.9.2"',
    ],
)
def test_what_is_uninstalled_stays(command: str) -> None:
    check_silence(f"{command} || true\n", "a.sh")
    moved = f"{command} && pip install petastorm==0.12.1\n"
    check_rewrite(moved, f"{command} && pip install mdstorm\n", "a.sh")
