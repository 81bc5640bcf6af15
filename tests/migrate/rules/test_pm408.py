"""Spark's configuration files."""

import pytest
from tests.migrate.checks import check_noop, check_rewrite

KEY = "petastorm.spark.converter.parentCacheDirUrl"


def test_the_key_is_renamed_and_its_value_stays() -> None:
    check_rewrite(
        f"spark.x 1\n{KEY}   file:///petastorm\n{KEY}=file:///x\n",
        f"spark.x 1\nmd{KEY[4:]}   file:///petastorm\nmd{KEY[4:]}=file:///x\n",
        "spark-defaults.conf",
        unsafe=True,
    )


def test_comments_and_longer_keys_stay() -> None:
    text = f"# {KEY} x\n{KEY}.more x\nmy.{KEY} x\n"
    check_rewrite(text, text, "spark.conf")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("job.json", '{{"spark_conf": {{"{key}": "x"}}}}'),
        ("databricks.yml", "spark_conf:\n  {key}: file:///x\n"),
        ("main.tf", '  spark_conf = {{\n    "{key}" = "file:///dbfs/tmp"\n  }}\n'),
        ("init.sh", 'cat > x.conf <<CONF\n[driver] {{\n  "{key}" = "file:///tmp"\n}}\nCONF\n'),
        ("Dockerfile", 'CMD ["spark-submit", "--conf", "{key}=/tmp", "a.py"]\n'),
        ("job.yml", "command: spark-submit --conf {key}=/tmp a.py\n"),
    ],
)
def test_the_key_is_found_in_commands_and_definitions(path: str, text: str) -> None:
    before = text.format(key="petastorm.spark.converter.parentCacheDirUrl")
    check_noop(before, path)
    after = text.format(key="mdstorm.spark.converter.parentCacheDirUrl")
    check_rewrite(before, after, path, unsafe=True)
