"""Petastorm's loggers govern what mdstorm logs in its place."""

import logging
from collections.abc import Iterator

import pytest
from tests.installed import installed_as_petastorm

from mdstorm._drop_in import install_as_petastorm

READER = "mdstorm.reader"
CONVERTER = "mdstorm.spark.spark_dataset_converter"
ENGINE = "mdstorm_backend.cache.space"


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    before = logging.getLogger("petastorm").level
    with installed_as_petastorm():
        yield
    logging.getLogger("petastorm").setLevel(before)


@pytest.mark.parametrize("name", [READER, CONVERTER, ENGINE, "mdstorm._readers.options"])
def test_the_level_of_petastorm_silences_all(name: str) -> None:
    assert logging.getLogger(name).isEnabledFor(logging.WARNING)
    logging.getLogger("petastorm").setLevel(logging.ERROR)
    assert not logging.getLogger(name).isEnabledFor(logging.WARNING)


def test_levels_of_mdstorm_hold_as_well() -> None:
    logging.getLogger("mdstorm").setLevel(logging.CRITICAL)
    try:
        assert not logging.getLogger(READER).isEnabledFor(logging.ERROR)
    finally:
        logging.getLogger("mdstorm").setLevel(logging.NOTSET)


@pytest.mark.parametrize("name", [READER, CONVERTER, ENGINE])
def test_handlers_of_petastorm_hear_each_record_once(name: str) -> None:
    install_as_petastorm()  # again does nothing
    heard: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = heard.append  # type: ignore[method-assign]
    for logger in (logging.getLogger("petastorm"), logging.getLogger()):
        logger.addHandler(handler)
    try:
        logging.getLogger(name).warning("said")
        assert [record.getMessage() for record in heard] == ["said", "said"]
        logging.getLogger("petastorm").propagate = False
        logging.getLogger(name).warning("said to one")
        assert len(heard) == 3
    finally:
        logging.getLogger("petastorm").propagate = True
        for logger in (logging.getLogger("petastorm"), logging.getLogger()):
            logger.removeHandler(handler)
