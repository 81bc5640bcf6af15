"""Descriptions of functions in states, whatever the version of Python that compiled them."""

import sys
from types import FunctionType
from typing import Any

import pytest

from mdstorm._selection.described import text_of

#: Python 3.14 marks functions that have a docstring, where others look at the first constant.
HAS_DOCSTRING = 0x4000000


def described(constants: tuple[Any, ...], flags: int = 0) -> str:
    """Describe a function whose code has these constants and additional flags."""
    code = (lambda: 0).__code__.replace(co_consts=constants, co_flags=flags, co_name="keep")
    function = FunctionType(code, {})
    function.__qualname__ = "keep"
    return text_of(function)


def test_python_before_3_14_takes_a_first_text_for_a_docstring(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 13, 0))
    assert described(("Keep large rows.", 7, "text")) == "keep using 7, 'text'"
    assert described((None, 7, "text")) == "keep using 7, 'text'"


def test_python_3_14_states_whether_there_is_a_docstring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 14, 0))
    found = described(("Keep large rows.", 7, "text"), HAS_DOCSTRING)
    assert found == "keep using 7, 'text'"
    assert described(("text", 7)) == "keep using 'text', 7"


def test_names_of_inner_functions_that_python_3_10_stores_are_left_out() -> None:
    assert described((None, 7, "keep.<locals>.<lambda>")) == "keep using 7"
