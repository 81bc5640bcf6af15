"""Files of other kinds."""

import pytest
from tests.migrate.checks import check_finding, check_noop, check_rewrite, check_silence

from mdstorm_migrate.api import migrate


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("main.tf", 'package = "petastorm==0.9"\n', 'package = "mdstorm"\n'),
        ("Jenkinsfile", "sh 'pip install petastorm==0.9'\n", "sh 'pip install mdstorm'\n"),
        ("frozen", "numpy==2.0\npetastorm==0.9\n", "numpy==2.0\nmdstorm\n"),
        ("list.txt", "# x\nsix==1\npetastorm==0.9\n", "# x\nsix==1\nmdstorm\n"),
        ("x.image", "FROM a\nRUN pip install petastorm\n", "FROM a\nRUN pip install mdstorm\n"),
        ("stack.ts", 'x = "pip install petastorm==1";\n', 'x = "pip install mdstorm";\n'),
        ("init", "#!/bin/bash\npip install petastorm\n", "#!/bin/bash\npip install mdstorm\n"),
        ("DockerfileGPU", "RUN pip install petastorm\n", "RUN pip install mdstorm\n"),
    ],
)
def test_what_is_plain_is_migrated(path: str, before: str, after: str) -> None:
    check_rewrite(before, after, path)


@pytest.mark.parametrize(
    ("path", "text", "fragment"),
    [
        ("Job.scala", 'Seq("petastorm==0.11.5")\n', "petastorm==0.11.5"),
        ("x.j2", '{"coordinates": "a",\n"b": "petastorm"}\n', "petastorm"),
        ("a.nix", "python.withPackages (ps: [ ps.petastorm ps.numpy ])\n", "petastorm"),
        ("a.nix", "with ps; [\n  petastorm\n]\n", "petastorm"),
        ("conf.hocon", 'dependencies = ["petastorm"]\n', "petastorm"),
    ],
)
def test_other_lines_that_require_it_are_listed(path: str, text: str, fragment: str) -> None:
    check_finding(text, "PM413", fragment, path)
    check_noop(text, path)


@pytest.mark.parametrize(
    ("path", "text", "name"),
    [
        ("A.kt", 'fun f() = listOf("pip", "install", PETASTORM)\n', "PETASTORM"),
        ("A.java", 'List.of("pip", "install", PETASTORM + "==0.12.1");\n', "PETASTORM"),
        ("A.scala", 'Seq("pip", "install", petastorm)\n', "petastorm"),
        ("Jenkinsfile", "sh 'pip install ' + petastorm\n", "petastorm"),
    ],
)
def test_names_of_code_stay_and_are_told(path: str, text: str, name: str) -> None:
    check_finding(text, "PM413", name, path)
    check_noop(text, path, unsafe=True)


def test_texts_of_code_over_several_lines_are_migrated() -> None:
    for quotes, path in (('"""', "A.kt"), ("`", "a.ts"), ("EOT\n", "a.rb")):
        text = f"x = {quotes}\n  pip install petastorm==1\n{quotes}\n"
        check_rewrite(text, text.replace("petastorm==1", "mdstorm"), path)


@pytest.mark.parametrize(
    ("path", "text"),
    [("notes.txt", "We load with petastorm.\n"), ("A.scala", 'val name = "petastorm"\n')],
)
def test_the_word_alone_is_none(path: str, text: str) -> None:
    check_silence(text, path)


@pytest.mark.parametrize(("name", "comment"), [("a.sql", "--"), ("a.scala", "//"), ("a.r", "#")])
def test_python_cells_of_notebooks_in_other_languages_are_reported(name: str, comment: str) -> None:
    text = f"{comment} MAGIC %python\n{comment} MAGIC from petastorm import make_reader\n"
    check_noop(text, name)
    check_finding(text, "PM413", "from petastorm import make_reader", name)
    shown = f'{text}{comment} MAGIC print(petastorm.__version__, "petastorm.events")\n'
    check_finding(shown, "PM413", "petastorm.__version__", name)
    assert len(migrate(shown, path=name).findings) == 2
    table = f"{comment} MAGIC %sql\n{comment} MAGIC SELECT petastorm.events.id\n"
    check_silence(table, name)


def test_calls_in_files_of_build_tools_are_no_list_of_requirements() -> None:
    text = 'python_requirement(name="petastorm", requirements=["petastorm==0.11.5"])\n'
    check_finding(text, "PM413", "petastorm==0.11.5", "BUILD")


@pytest.mark.parametrize("label", ["@pip//petastorm", "@pypi//petastorm:pkg", "@d_petastorm//:pkg"])
def test_labels_of_bazel_for_petastorm_are_reported(label: str) -> None:
    text = f'py_library(\n    name = "petastorm",\n    deps = ["{label}"],\n)\n'
    check_finding(text, "PM413", label, "BUILD.bazel")
    check_silence(text.replace(label, "//third_party/petastorm_like"), "BUILD.bazel")


def test_versions_that_code_joins_to_a_requirement_need_manual_review() -> None:
    text = 'List.of("pip", "install", "petastorm==" + VERSION, "six");\n'
    check_noop(text, "A.java")
    check_finding(text, "PM413", "petastorm", "A.java")


def test_a_variable_and_its_value_are_said_once() -> None:
    text = 'petastorm := "petastorm==0.12.1"\ninstall:\n    pip install {{petastorm}}\n'
    check_noop(text, "justfile")
    found = [one for one in migrate(text, path="justfile").findings if one.rule == "PM413"]
    assert [text[one.start : one.stop] for one in found] == ["petastorm==0.12.1"]


def test_comments_of_code_require_nothing() -> None:
    check_silence("/** The pip command of petastorm.\n * install petastorm\n */\n", "A.java")


@pytest.mark.parametrize("mark", ["--", "//"])
def test_a_notebook_in_another_language_installs_what_its_cells_import(mark: str) -> None:
    head = f"{mark} Databricks notebook source\n"
    install = f"{mark} MAGIC %pip install petastorm==0.12.0\n"
    cell = f"{mark} MAGIC %python\n{mark} MAGIC import petastorm\n"
    new = install.replace("petastorm==0.12.0", "mdstorm")
    check_rewrite(f"{head}{install}", f"{head}{new}", "a.scala")
    check_noop(f"{head}{install}{cell}", "a.scala")
    check_rewrite(f"{head}{install}{cell}", f"{head}{new}{cell}", "a.scala", unsafe=True)


def test_pages_about_the_repository_install_nothing() -> None:
    page = "https://github.com/uber/petastorm"
    check_silence(f'links = {{"issue": ("{page}/issues/%s", "%s")}}\n', "conf.py")
    check_finding(
        f"curl {page}/archive/master.zip\n", "PM406", f"{page}/archive/master.zip", "a.sh"
    )


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("refs.bib", "url = {https://github.com/uber/petastorm}\n"),
        ("paper.tex", "\\url{https://eng.uber.com/petastorm/}\n"),
        ("x.yml", "homepage: https://eng.uber.com/petastorm/\n"),
        ("x.json", '{"url": "https://mlflow.acme.com/experiments/petastorm/"}\n'),
        ("x.py", 'requests.get("https://ci.acme.com/jobs/petastorm/")\n'),
    ],
)
def test_pages_of_other_hosts_install_nothing(path: str, text: str) -> None:
    assert not [one for one in migrate(text, path=path).findings if one.cls == "manual"]


@pytest.mark.parametrize(
    "command",
    [
        "git clone https://acme.com/ml/petastorm",
        "pip install git+https://acme.com/ml/petastorm",
        "pip install https://acme.com/ml/petastorm/archive.zip",
        "curl -O https://code.acme.com/ml/petastorm",
    ],
)
def test_repositories_of_other_hosts_are_found(command: str) -> None:
    found = migrate(f"{command}\n", path="a.sh").findings
    assert [one.cls for one in found if one.rule == "PM406"] == ["manual"]


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("a.gin", "import petastorm.pytorch"),
        ("a.gin", "petastorm.pytorch.DataLoader.batch_size = 128"),
        ("a.gin", "train/petastorm.make_reader.num_epochs = 1"),
        ("a.gin", "build.loader = @petastorm.pytorch.DataLoader"),
        ("a.R", 'ps <- import("petastorm")'),
        ("a.R", "pu <- import('petastorm.unischema', convert = FALSE)"),
        ("a.r", 'py_run_string("import os\nfrom petastorm import make_reader")'),
        ("Jenkinsfile", "sh \"python -c 'from petastorm.etl import x; print(x)'\""),
        ("Jenkinsfile", 'sh "cp x.py /v/site-packages/petastorm/"'),
    ],
)
def test_other_languages_that_use_petastorm(path: str, line: str) -> None:
    (found,) = migrate(f"{line}\n", path=path).findings
    assert (found.rule, found.cls) == ("PM413", "manual")
    check_silence(f"# {line.splitlines()[0]}\n", path)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("a.scala", 'require(rc == 0, s"petastorm metadata failed: $rc")'),
        ("a.gin", "trainer.petastorm.x = 1"),
        ("a.R", 'import("acme.petastorm.io")'),
        ("a.R", 'message("petastorm", import("numpy"))'),
        ("notes.txt2", "Where we import petastorm, all is well."),
    ],
)
def test_messages_and_names_of_ones_own_in_other_languages(path: str, line: str) -> None:
    check_silence(f"{line}\n", path)


@pytest.mark.parametrize(
    "text",
    [
        "Install it with pip install petastorm==0.9 first.\n",
        "pip install petastorm==0.9\n>>> import petastorm\n",
        "run `pip install petastorm` before you train.\n",
        "To use it:\n\n  pip install petastorm\n\nThen run the training.\n",
        "The metadata are written by python -m petastorm.etl.petastorm_generate_metadata\n",
        "2021-03-02: tried pip install petastorm==0.9.8 on the cluster, failed\n",
        "[2021-03-02 10:11:12] step two of three\n\npip install petastorm==0.9.8\n",
    ],
)
def test_commands_in_running_text_are_told_and_left(text: str) -> None:
    result = check_noop(text, "notes.txt")
    assert ("PM413", "note") in [(one.rule, one.cls) for one in result.findings]


def test_commands_that_are_a_text_of_their_own_move() -> None:
    check_rewrite("pip install petastorm\n", "pip install mdstorm\n", "commands.txt")
    check_rewrite("- run: pip install petastorm\n", "- run: pip install mdstorm\n", "job.txt")


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("a.ts", 'console.log("petastorm installed");'),
        ("a.ts", 'const install = "petastorm";'),
        ("a.ts", 'new Chart(this, "petastorm", {install: true});'),
        ("a.java", 'log.info("petastorm {} installed", 1);'),
        ("a.scala", 'log("installing petastorm")'),
        ("a.go", 'log.info("pip could not install petastorm")'),
        ("a.go", 'helm("install", "petastorm")'),
        ("a.rb", 'puts "petastorm #{VERSION} installed"'),
        ("a.R", 'install.packages("petastorm")'),
        ("Jenkinsfile", "stage('install petastorm') { sh 'helm install petastorm chart' }"),
    ],
)
def test_messages_labels_and_other_installers_require_nothing(path: str, line: str) -> None:
    check_silence(f"{line}\n", path)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("a.ts", 'run("pip", ["install", "petastorm"]);'),
        ("a.ts", 'const requirements = ["petastorm"];'),
        ("a.scala", 'val libs = Seq("tqdm==4.66", "petastorm")'),
        ("a.R", 'reticulate::py_install("petastorm")'),
        ("main.tf", 'python_packages = ["petastorm"]'),
    ],
)
def test_installers_and_lists_of_requirements_are_told(path: str, line: str) -> None:
    result = migrate(f"{line}\n", path=path, todo=False)
    told = [*result.edits, *result.findings]
    assert [one.rule for one in told if one.rule != "PM001"] == ["PM413"]


EXPORTED = "# $ conda create --name <env> --file <this file>\nnumpy=1.19.2=py37h54a_0\n"
URL = "https://conda.anaconda.org/conda-forge/noarch"


@pytest.mark.parametrize(
    ("text", "fragments"),
    [
        (f"{EXPORTED}petastorm=0.9.2=py_0\npython=3.7.9=h75_0\n", ["petastorm", "3.7.9"]),
        ("numpy=1.19.2\npetastorm=0.9.2\n", ["petastorm"]),
        (f"@EXPLICIT\n{URL}/petastorm-0.9.2-py_0.tar.bz2#a1\n", ["petastorm"]),
        (
            f"@EXPLICIT\n{URL}/python-3.8.1-h1_0.conda\n{URL}/petastorm-0.9-py_0.conda\n",
            ["3.8.1", "petastorm"],
        ),
    ],
)
def test_lists_that_conda_writes_are_to_be_written_again(text: str, fragments: list[str]) -> None:
    result = check_noop(text, "spec.txt", unsafe=True)
    assert [text[one.start : one.stop] for one in result.findings] == fragments
    assert {one.cls for one in result.findings} == {"manual"}


@pytest.mark.parametrize(
    "text", ["petastorm=0.9\nand=some prose\n", f"see {URL}/petastorm-0.9-py_0.conda\n"]
)
def test_other_texts_are_no_lists_of_conda(text: str) -> None:
    check_silence(text, "notes.txt")


def test_tables_of_dependencies_in_toml_are_listed_under_any_name() -> None:
    text = '[tool.pixi.dependencies]\npetastorm = ">=0.12,<0.13"\n'
    check_finding(text, "PM413", "petastorm", "env.toml")


def test_code_that_a_shell_hands_to_python_is_listed_in_pipelines() -> None:
    text = "sh '''\n  python - <<PY\nimport petastorm\nPY\n'''\n{}"
    check_finding(text.format(""), "PM413", "import petastorm", "Jenkinsfile")
    says = "echo about\nimport petastorm\n"
    found = migrate(text.format(says), path="Jenkinsfile").findings
    assert [one.line for one in found if one.rule == "PM413"] == [3]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("debian/control", "Package: x\nDepends: ${python3:Depends}, {0} (>= 0.11)\n"),
        ("x.spec", "Name: x\nRequires: {0} >= 0.11\n"),
    ],
)
def test_packages_of_a_system_are_listed(path: str, text: str) -> None:
    name = "python3-petastorm"
    check_finding(text.replace("{0}", name), "PM413", name, path)
    own = f"Package: {name}\nName: {name}\n"
    assert [one.rule for one in migrate(own, path=path).findings if one.cls == "manual"] == []
