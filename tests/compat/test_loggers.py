"""One logger for all that mdstorm logs, as Petastorm has one."""

import logging

import pytest

import mdstorm


def test_the_logger_of_the_package_rules_that_of_the_engine(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert mdstorm.__name__ == "mdstorm"
    engine = logging.getLogger("mdstorm_backend.cache.space")
    caplog.set_level(logging.DEBUG, logger="mdstorm")
    engine.debug("said")
    assert caplog.messages == ["said"]  # handlers of the root logger hear it once
    caplog.set_level(logging.ERROR, logger="mdstorm")
    assert not engine.isEnabledFor(logging.WARNING)
    heard = []
    handler = logging.Handler()
    handler.emit = heard.append  # type: ignore[method-assign]
    logging.getLogger("mdstorm").addHandler(handler)
    try:
        engine.error("of the engine")
    finally:
        logging.getLogger("mdstorm").removeHandler(handler)
    assert [record.getMessage() for record in heard] == ["of the engine"]
