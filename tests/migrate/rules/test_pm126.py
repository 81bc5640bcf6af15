"""Codecs and indexers of the project's own."""

from __future__ import annotations

import pytest
from tests.migrate.checks import check_finding, check_noop, check_rewrite

IMPORT = "from petastorm.codecs import {0}\nfrom petastorm.unischema import UnischemaField\n"
FIELD = 'UnischemaField("x", np.float32, (), {0}, False)\n'


@pytest.mark.parametrize("codec", ["DataframeColumnCodec", "ScalarCodec", "CompressedImageCodec"])
def test_classes_that_are_made_from_codecs_hold_the_file(codec: str) -> None:
    text = f"{IMPORT.format(codec)}\nclass Own({codec}):\n    pass\n\n\n{FIELD.format('Own()')}"
    check_noop(text)
    check_finding(text, "PM126", "Own")


@pytest.mark.parametrize(
    ("head", "codec", "name"),
    [
        ("class Own:\n    pass\n", "Own()", "Own()"),
        ("from acme.codecs import Jpeg2000\n", "codec=Jpeg2000(90)", "Jpeg2000(90)"),
        ("import acme.codecs as c\n", "c.Jpeg2000()", "c.Jpeg2000()"),
    ],
)
def test_fields_with_a_class_of_the_project_hold_it(head: str, codec: str, name: str) -> None:
    text = f"{head}from petastorm.unischema import UnischemaField\n{FIELD.format(codec)}"
    text = text.replace("False", "nullable=False")
    check_noop(text)
    check_finding(text, "PM126", name)


@pytest.mark.parametrize("codec", ["None", "ScalarCodec(IntegerType())", "made()", "codec"])
def test_codecs_of_petastorm_and_what_is_not_known_hold_nothing(codec: str) -> None:
    text = (
        "from acme.compat import ScalarCodec, made\n"
        f"from petastorm.unischema import UnischemaField\n{FIELD.format(codec)}"
    )
    check_rewrite(text, text.replace("petastorm", "mdstorm"))


def test_a_codec_that_a_file_uses_without_a_dataset_moves() -> None:
    text = f"{IMPORT.format('ScalarCodec')}\nclass Own(ScalarCodec):\n    pass\n"
    used = f"{text}\nvalue = field.codec.decode(field, data)\n"
    check_rewrite(used, used.replace("petastorm", "mdstorm"))
    check_noop(f"{used}with materialize_dataset(spark, url, S):\n    pass\n")


INDEXER = "from petastorm.etl.rowgroup_indexers import {0}\n\n\nclass Own({0}):\n    pass\n"
BUILD = """from petastorm.etl.rowgroup_indexing import build_rowgroup_index

build_rowgroup_index(url, sc, [Own("a", "b")])
"""


def test_classes_that_are_made_from_the_base_of_indexers_hold_the_file() -> None:
    text = INDEXER.format("RowGroupIndexerBase")
    check_noop(text)
    check_finding(text, "PM126", "Own")


def test_what_an_index_is_built_of_is_one_of_petastorms() -> None:
    text = f"class Own:\n    pass\n\n\n{BUILD}"
    check_noop(text)
    check_finding(text, "PM126", 'Own("a", "b")')
    check_noop(text.replace("sc, [", "sc, indexers=["))


@pytest.mark.parametrize("base", ["SingleFieldIndexer", "FieldNotNullIndexer"])
def test_indexers_that_are_made_from_those_of_petastorm_move(base: str) -> None:
    text = INDEXER.format(base) + BUILD
    check_rewrite(text, text.replace("petastorm", "mdstorm"))
