"""Spark's configuration files."""

import pytest
from tests.migrate.checks import check_finding, check_noop, check_rewrite, check_silence

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


def test_it_is_one_to_review() -> None:
    check_noop(f"{KEY} file:///x\n", "spark.conf")


def test_packages_that_spark_installs_need_review() -> None:
    text = "spark.pyspark.virtualenv.packages petastorm==0.12.1\n"
    check_finding(text, "PM408", "petastorm==0.12.1", "spark-defaults.conf")


@pytest.mark.parametrize(
    ("setting", "file"),
    [
        (
            "spark.yarn.dist.archives   hdfs:///envs/petastorm-0.11.4-py37.tar.gz#env",
            "hdfs:///envs/petastorm-0.11.4-py37.tar.gz",
        ),
        ("spark.submit.pyFiles=a.zip,petastorm.zip", "petastorm.zip"),
        ("spark.executorEnv.PYTHONPATH ./petastorm.zip", "./petastorm.zip"),
    ],
)
def test_files_of_petastorm_that_spark_ships_need_review(setting: str, file: str) -> None:
    check_finding(f"spark.master yarn\n{setting}\n", "PM408", file, "spark-defaults.conf")
    check_silence(f"# {setting}\nspark.files hdfs:///petastorm_job.zip\n", "spark-defaults.conf")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("main.tf", '  spark_conf = {{\n    "{key}" = "file:///dbfs/tmp"\n  }}\n'),
        ("init.sh", 'cat > x.conf <<CONF\n[driver] {{\n  "{key}" = "file:///tmp"\n}}\nCONF\n'),
        ("submit.sh", "spark-submit --conf {key}=hdfs:///tmp train.py\n"),
        ("Dockerfile", 'CMD ["spark-submit", "--conf", "{key}=/tmp", "a.py"]\n'),
        ("job.yml", "command: spark-submit --conf {key}=/tmp a.py\n"),
    ],
)
def test_the_key_is_found_in_commands_and_definitions(path: str, text: str) -> None:
    before = text.format(key="petastorm.spark.converter.parentCacheDirUrl")
    check_noop(before, path)
    after = text.format(key="mdstorm.spark.converter.parentCacheDirUrl")
    check_rewrite(before, after, path, unsafe=True)
