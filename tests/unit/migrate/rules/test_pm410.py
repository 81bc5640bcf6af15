"""PM410: code in documentation."""

from tests.kit.migrating import check_finding, check_noop, each

from mdstorm_migrate.api import migrate


@each(
    ("```python\nimport x\nfrom petastorm import y\n```\n", "from petastorm"),
    ("~~~\npip install petastorm\n~~~\n", "pip install petastorm"),
    ("Try:\n\n    >>> from petastorm.codecs import x\n    >>> x\n", "from petastorm"),
    ("```\n>>> import petastorm\n```\n", ">>> import petastorm"),
    ("Try\n\n    pip install petastorm==1\n", "pip install petastorm"),
    ("Try\n\n    python -m petastorm.tools.x a\n", "petastorm.t"),
    ('```\n$ python -c "from petastorm import x"\n```\n', '"from petastorm'),
    ("```text\npetastorm[torch]==0.9.2\n```\n", "petastorm[torch]=="),
    ("```python\nform petastorm import make_reader\n```\n", "petastorm import"),
    ("```python\nimport petastorm\n", "import petastorm"),
    ("Run `pip install petastorm` first.\n", "pip install petastorm"),
    (">>>\n.. code-block:: python\n\n   import petastorm\n", "   import petastorm"),
)
def test_code_block_in_page_is_reported_once(text: str, fragment: str) -> None:
    check_finding(text, "PM410", fragment, "README.md")
    assert len(migrate(text, path="README.md").findings) == 1
    check_noop(text, "README.md")


UNDERLINED = """\
Title
~~~~~

.. code-block:: python

  from petastorm import a

More
~~~~

.. sourcecode:: python
  :linenos:
 \t
  from petastorm import b

Last:: \t

  from petastorm import c
"""


@each("\n", "\r\n")
def test_rst_code_blocks_are_each_reported(newline: str) -> None:
    result = migrate(UNDERLINED.replace("\n", newline), path="README.rst")
    assert [one.line for one in result.findings] == [6, 14, 18]


def test_prose_in_page_is_not_reported() -> None:
    assert migrate("Petastorm: `from petastorm import x`\n", path="README.md").findings == ()
    assert migrate("A list\n\n    petastorm and others\n", path="README.md").findings == ()
