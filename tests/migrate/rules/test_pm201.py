"""The parent cache directory as an argument."""

import pytest
from tests.migrate.checks import check_finding, check_noop, check_rewrite

IMPORT = "from petastorm.spark import SparkDatasetConverter, make_spark_converter\n"
CONNECT = f"{IMPORT}spark = SparkSession.builder.remote(url).getOrCreate()\n"


def write(value: str) -> str:
    return f"spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, {value})\n"


def moved(text: str) -> str:
    return text.replace("petastorm", "mdstorm")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            f"{write('url')}a = f(df)\nb = f(\n    df,\n)\n",
            "a = f(df, parent_cache_dir_url=url)\nb = f(\n    df, parent_cache_dir_url=url,\n)\n",
        ),
        (
            f"{write('base + name')}def g():\n    return f(df)\n",
            "parent_cache_dir_url = base + name\n"
            "def g():\n    return f(df, parent_cache_dir_url=parent_cache_dir_url)\n",
        ),
        (
            f"def g():\n    {write('url')}    f(df)\n",
            "def g():\n    f(df, parent_cache_dir_url=url)\n",
        ),
        (
            f"if x:\n    {write('url')}f(df)\n",
            "if x:\n    pass\nf(df, parent_cache_dir_url=url)\n",
        ),
    ],
)
def test_the_directory_is_given_to_every_call(before: str, after: str) -> None:
    before, after = (text.replace("f(df", "make_spark_converter(df") for text in (before, after))
    before, after = (text.replace("f(\n", "make_spark_converter(\n") for text in (before, after))
    check_rewrite(CONNECT + before, moved(CONNECT + before))
    check_rewrite(CONNECT + before, moved(CONNECT) + after, unsafe=True)


def test_one_link_of_a_chain_goes() -> None:
    check_rewrite(
        f"{IMPORT}spark = (SparkSession.builder.remote(url)\n"
        "    .config(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, 'file:///x')\n"
        "    .getOrCreate())\nmake_spark_converter(df)\n",
        f"{moved(IMPORT)}spark = (SparkSession.builder.remote(url)\n"
        "    .getOrCreate())\nmake_spark_converter(df, parent_cache_dir_url='file:///x')\n",
        unsafe=True,
    )


@pytest.mark.parametrize(
    "text",
    [
        write("url"),  # conversions stand elsewhere
        f"def g():\n    {write('url')}make_spark_converter(df)\n",  # where it is not known
        f"{write('a')}make_spark_converter(df)\n{write('b')}make_spark_converter(df)\n",
    ],
)
def test_what_cannot_be_followed_needs_manual_review(text: str) -> None:
    check_rewrite(CONNECT + text, moved(CONNECT + text), unsafe=True, todo=False)
    key = "SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF"
    value = "a" if "b)" in text else "url"
    check_finding(CONNECT + text, "PM201", f"spark.conf.set({key}, {value})")


def test_where_the_conf_can_be_set_it_stays_unless_asked_for() -> None:
    text = f"{IMPORT}{write('url')}make_spark_converter(df)\n"
    check_rewrite(text, moved(text), unsafe=True)
    after = f"{moved(IMPORT)}make_spark_converter(df, parent_cache_dir_url=url)\n"
    check_rewrite(text, after, unsafe=True, select=["PM101", "PM201"])
    check_noop(text, unsafe=True, select=["PM201"])  # Petastorm has no such argument


@pytest.mark.parametrize("call", ["spark.conf.set({})\n", "s = b.remote('a').config({})\n"])
def test_a_literal_key_goes_with_its_statement(call: str) -> None:
    setting = call.format("'petastorm.spark.converter.parentCacheDirUrl', 'file:///x'")
    left = "s = b.remote('a')\n" if "remote" in call else ""
    head = "# serverless\nfrom {}.spark import make_spark_converter\n"
    check_rewrite(
        f"{head.format('petastorm')}{setting}make_spark_converter(df)\n",
        f"{head.format('mdstorm')}{left}"
        "make_spark_converter(df, parent_cache_dir_url='file:///x')\n",
        unsafe=True,
    )


def test_a_name_that_means_something_else_later_is_kept_under_another() -> None:
    rest = "url = 'other'\nmake_spark_converter(df"
    check_rewrite(
        f"{CONNECT}url = 'file:///x'\n{write('url')}{rest})\n",
        f"{moved(CONNECT)}url = 'file:///x'\n"
        f"parent_cache_dir_url = url\n{rest}, parent_cache_dir_url=parent_cache_dir_url)\n",
        unsafe=True,
    )


@pytest.mark.parametrize("use", ["partial(make_spark_converter)", "make_spark_converter"])
def test_a_function_that_is_handed_on_keeps_the_conf(use: str) -> None:
    text = f"{CONNECT}{write('url')}convert = {use}\nconvert(df)\nmake_spark_converter(df)\n"
    check_rewrite(text, moved(text), unsafe=True, todo=False)
