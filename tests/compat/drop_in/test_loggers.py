"""Petastorm's loggers govern what mdstorm logs in its place."""

import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest
from tests.installed import installed_as_petastorm

from mdstorm._drop_in import install_as_petastorm

READER = "mdstorm.reader"
CONVERTER = "mdstorm.spark.spark_dataset_converter"
ENGINE = "mdstorm_backend.cache.space"


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    names = ("petastorm", "petastorm.reader", "petastorm.spark")
    before = {name: logging.getLogger(name).level for name in names}
    with installed_as_petastorm():
        yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


@pytest.mark.parametrize("name", [READER, CONVERTER, ENGINE, "mdstorm._readers.options"])
def test_the_level_of_petastorm_silences_all(name: str) -> None:
    assert logging.getLogger(name).isEnabledFor(logging.WARNING)
    logging.getLogger("petastorm").setLevel(logging.ERROR)
    assert not logging.getLogger(name).isEnabledFor(logging.WARNING)


@pytest.mark.parametrize(
    ("theirs", "silenced", "heard"),
    [("petastorm.reader", READER, CONVERTER), ("petastorm.spark", CONVERTER, READER)],
)
def test_the_level_of_a_part_silences_that_part(theirs: str, silenced: str, heard: str) -> None:
    logging.getLogger(theirs).setLevel(logging.ERROR)
    assert not logging.getLogger(silenced).isEnabledFor(logging.WARNING)
    assert logging.getLogger(heard).isEnabledFor(logging.WARNING)


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


INSTALL = "from mdstorm import install_as_petastorm\ninstall_as_petastorm()\n"
A_LOGGER_OF_A_PACKAGE_IS_MADE_LATER = (
    f"import logging\n{INSTALL}"
    "logging.getLogger('petastorm.pytorch').setLevel('ERROR')\n"
    "logging.getLogger('mdstorm._torch')\n"
    "print(logging.getLogger('mdstorm._torch.loader').getEffectiveLevel())\n"
)
UNDER_THE_COMMAND = (
    f"import logging\nlogging.getLogger('petastorm').setLevel('ERROR')\n{INSTALL}"
    "import petastorm\nlogging.getLogger('petastorm.reader.x')\n"
    "print(logging.getLogger('mdstorm.reader').getEffectiveLevel())\n"
)


@pytest.mark.parametrize("program", [A_LOGGER_OF_A_PACKAGE_IS_MADE_LATER, UNDER_THE_COMMAND])
def test_a_program_silences_it(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (f"{logging.ERROR}\n", "")
