"""Code in documentation."""

import pytest
from tests.migrate.checks import check_finding, check_noop

from mdstorm_migrate.api import migrate


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("```python\nimport x\nfrom petastorm import y\n```\n", "from petastorm"),
        ("~~~\npip install petastorm\n~~~\n", "pip install petastorm"),
        ("Try:\n\n    >>> from petastorm.codecs import x\n    >>> x\n", "from petastorm"),
        ("```\n>>> import petastorm\n```\n", ">>> import petastorm"),
        ("Try\n\n    pip install petastorm==1\n", "pip install petastorm"),
        ("Try\n\n    petastorm-throughput.py file:///x\n", "petastorm-throughput.py"),
        ("Try\n\n    python -m petastorm.tools.x a\n", "petastorm.t"),
        ('```\n$ python -c "from petastorm import x"\n```\n', '"from petastorm'),
        ("```text\npetastorm[torch]==0.9.2\n```\n", "petastorm[torch]=="),
        ("# API\n::: petastorm.reader.Reader\n", "petastorm.reader.Reader"),
        ("A :py:class:`~petastorm.reader.Reader` is\n", "petastorm.reader.Reader"),
        ("A :func:`reader <petastorm.make_reader>` is\n", "petastorm.make_reader"),
        ("A {class}`petastorm.reader.Reader` is\n", "petastorm.reader.Reader"),
        (".. automodule:: petastorm.reader\n   :members:\n", "petastorm.reader"),
        (">>>\n.. code-block:: python\n\n   import petastorm\n", "   import petastorm"),
    ],
)
def test_a_block_of_code_is_reported(text: str, fragment: str) -> None:
    check_finding(text, "PM410", fragment, "README.md")
    check_noop(text, "README.md")


def test_prose_is_not() -> None:
    assert migrate("Petastorm: `from petastorm import x`\n", path="README.md").findings == ()
    assert migrate("A list\n\n    petastorm and others\n", path="README.md").findings == ()


def test_commands_in_literal_blocks_are_code() -> None:
    text = "Measure::\n\n    petastorm-throughput.py hdfs:///x\n\nRead /opt/petastorm-x.py.\n"
    check_noop(text, "a.rst")
    check_finding(text, "PM410", "petastorm-throughput.py", "a.rst")
