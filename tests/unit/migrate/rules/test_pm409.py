"""PM409: cluster and job definitions."""

from tests.kit.migrating import check_held, check_noop, check_rewrite, check_silence, each


@each(
    ("a.json", '{"package":"petastorm[tf]<1", "e": 1}', '{"package":"mdstorm[tf]", "e": 1}'),
    ("a.json", '{"dependencies": ["petastorm", "a"]}', '{"dependencies": ["mdstorm", "a"]}'),
    ("a.yml", "- pypi: {package: petastorm==1.0}\n", "- pypi: {package: mdstorm}\n"),
    ("a.tf", 'pypi {\n package = "petastorm==1.0"\n}\n', 'pypi {\n package = "mdstorm"\n}\n'),
    ("a.tf", 'pip = ["petastorm", "a"]\n', 'pip = ["mdstorm", "a"]\n'),
    (
        "a.yml",
        "- pip install x\n  petastorm && python -c 'import\n  petastorm'\n",
        "- pip install x\n  mdstorm && python -c 'import\n  mdstorm'\n",
    ),
    ("a.yml", '- pypi:\n   package: "petastorm" # c\n', '- pypi:\n   package: "mdstorm" # c\n'),
    ("a.yml", "requirements:\n- petastorm==0.1\n- a\n", "requirements:\n- mdstorm\n- a\n"),
    ("a.yml", "run: |\n  pip install petastorm\n", "run: |\n  pip install mdstorm\n"),
    (
        "a.yml",
        "- python -m petastorm.etl.dataset_metadata x\n",
        "- python -m mdstorm.etl.dataset_metadata x\n",
    ),
    (
        "a.yml",
        "- petastorm-generate-metadata.py --dataset_url x\n",
        "- mdstorm-generate-metadata.py --dataset_url x\n",
    ),
    (
        "a.yml",
        "- run: petastorm-generate-metadata.py --dataset_url x\n",
        "- run: mdstorm-generate-metadata.py --dataset_url x\n",
    ),
    (
        "a.yml",
        'command: ["petastorm-generate-metadata.py"]\nargs: ["--dataset_url", "x"]\n',
        'command: ["mdstorm-generate-metadata.py"]\nargs: ["--dataset_url", "x"]\n',
    ),
    (
        "a.yml",
        'command: ["python", "-m"]\nargs: ["petastorm.etl.petastorm_generate_metadata", "-x"]\n',
        'command: ["python", "-m"]\nargs: ["mdstorm.etl.petastorm_generate_metadata", "-x"]\n',
    ),
    (
        "a.yml",
        "command:\n- python\n- -m\nargs:\n- petastorm.etl.dataset_metadata\n",
        "command:\n- python\n- -m\nargs:\n- mdstorm.etl.dataset_metadata\n",
    ),
    (
        "a.json",
        '{"command": ["python", "-c"], "args": ["import petastorm.reader"]}\n',
        '{"command": ["python", "-c"], "args": ["import mdstorm.reader"]}\n',
    ),
    (
        "a.yml",
        "command:\n- python\n- -c\n- import petastorm.reader\n",
        "command:\n- python\n- -c\n- import mdstorm.reader\n",
    ),
    (
        "a.yml",
        "args: [petastorm.etl.dataset_metadata, -x]\ncommand: [python, -m]\n",
        "args: [mdstorm.etl.dataset_metadata, -x]\ncommand: [python, -m]\n",
    ),
    (
        "a.yml",
        "command:\n- petastorm-generate-metadata.py\n- --dataset_url\n- x\n",
        "command:\n- mdstorm-generate-metadata.py\n- --dataset_url\n- x\n",
    ),
)
def test_requirements_and_commands_in_json_and_yaml_are_rewritten(
    path: str, before: str, after: str
) -> None:
    check_rewrite(before, after, path, unsafe=True)


@each(
    'script: ["pip install {}", "pytest -m petastorm"]\n',
    'script: ["pip install a", "pytest -m petastorm", "pip install {}"]\n',
    'command: ["pip", "install", "numpy", "{}"]\n',
)
def test_yaml_list_is_read_as_commands_or_as_words_of_one_command(text: str) -> None:
    check_rewrite(text.format("petastorm==0.12.1"), text.format("mdstorm"), ".gitlab-ci.yml")


@each(
    ("ci.yml", "- name: pip install petastorm\n  run: make\n"),
    ("ci.yml", "- run: make\n  name: Run python -m petastorm.etl.dataset_metadata\n"),
    ("azure-pipelines.yml", "- script: make\n  displayName: pip install petastorm\n"),
    ("devcontainer.json", '{\n  // pip install petastorm==0.12\n  "image": "x"\n}\n'),
    ("devcontainer.json", '{\n  "a": "https://x", // pip install petastorm\n  "image": "x"\n}\n'),
    ("main.tf", 'a = "b"\n// petastorm==0.12.1\n'),
    ("devcontainer.json", "{\n  /* python -m petastorm.reader,\n  pip install petastorm */}\n"),
)
def test_title_and_comment_are_unchanged(path: str, text: str) -> None:
    check_silence(text, path)


@each(
    ("conf.yaml", "name: petastorm\n"),
    ("conf.yaml", "format: petastorm\n"),
    ("conf.yaml", "paths:\n  - petastorm\n"),
    ("mkdocs.yml", "package: petastorm\n"),
    ("mkdocs.yml", '[{"package": "petastorm"}]\n'),
    ("ci.yml", "script:\n  - pytest -m petastorm\n"),
    ("ci.yml", "- name: import petastorm\n"),
    ("ci.yml", "v: petastorm\nlibraries:\n  - whl: /x/petastorm.whl\n"),
    # names of jobs and tasks
    ("a.yml", "petastorm:\n  script: [x]\nreport:\n  dependencies:\n    - petastorm\n"),
    ("a.yml", "tasks:\n  - name: petastorm\n  - name: b\n    dependencies: [petastorm]\n"),
)
def test_other_json_and_yaml_values_are_unchanged(path: str, text: str) -> None:
    check_noop(text, path, unsafe=True)


def test_code_without_its_command_needs_manual_review() -> None:
    text = 'args:\n  - "-c"\n  - "import petastorm; print(1)"\n'
    check_held(text, "PM409", "petastorm", "a.yml")


@each(
    ("a.yml", "env:\n  EXTRA_PIP_PACKAGES: torch petastorm\n"),
    ("a.yml", "- EXTRA_PIP_PACKAGES=petastorm\n"),
    ("a.json", '{"pip_packages_to_add": "petastorm torch"}\n'),
    ("a.yml", "- pip: {name: [petastorm, torch]}\n"),
    ("a.yml", "- ansible.builtin.pip:\n    name: petastorm\n    version: '0.12.1'\n"),
    ("a.yml", "- pip:\n    name:\n      - petastorm\n"),
    ("a.yml", "args: [build, --build-arg, PACKAGE=petastorm, .]\n"),
    ("a.yml", "env:\n  DEPS: petastorm\nrun: pip install $DEPS\n"),
)
def test_setting_for_pip_needs_manual_review(path: str, text: str) -> None:
    check_held(text, "PM409", "petastorm", path)
