"""What tests of ``--target streaming`` say: this becomes that, or it stays, and why."""

from __future__ import annotations

import ast

from mdstorm_migrate.api import Result, migrate

IMPORT = "from petastorm.spark import SparkDatasetConverter, make_spark_converter\n"
CONF = "spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, 'file:///x')\n"
MADE = f"{IMPORT}{CONF}conv = make_spark_converter(df)\n"


def streamed(text: str, **options: object) -> Result:
    """Migrate a text to MosaicML Streaming, twice: the second time, nothing changes."""
    result = migrate(text, target="streaming", unsafe=True, **options)  # type: ignore[arg-type]
    again = migrate(result.output, target="streaming", unsafe=True, **options)  # type: ignore[arg-type]
    assert result.errors == again.errors == ()
    assert again.output == result.output
    return result


def check_turned(text: str, *expected: str) -> str:
    """Assert that nothing of Petastorm is left, and that some lines are there; return the text."""
    output = streamed(text).output
    assert "petastorm" not in output
    lines = [line.strip() for line in output.splitlines()]
    for line in expected:
        assert line in lines
    return output


def check_stays(text: str, reason: str, code: str = "PM306") -> None:
    """Assert that nothing changes but a comment that gives a reason."""
    result = streamed(text)
    assert ast.dump(ast.parse(result.output)) == ast.dump(ast.parse(text))
    assert any(reason in found.message for found in result.findings if found.rule == code)
    assert f"# TODO(mdstorm): {code}:" in result.output
