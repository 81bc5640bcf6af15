"""Refusals and reasons in Spark's errors.

Each version of Spark and each kind of session raises its own errors, but with the same error
conditions.
"""

from __future__ import annotations

import re
from contextlib import suppress

#: Spark's error conditions for features that a session does not offer.
_CONDITIONS = frozenset(
    {
        "CANNOT_MODIFY_CONFIG",
        "CANNOT_MODIFY_STATIC_CONFIG",
        "CONFIG_NOT_AVAILABLE",
        "INSUFFICIENT_PERMISSIONS",
        "JVM_ATTRIBUTE_NOT_SUPPORTED",
        "NOT_SUPPORTED_WITH_SERVERLESS",
    }
)
#: Parts of the messages of such errors if they have no condition, as on clusters with table access
#: control and, for configuration values, in older Spark releases.
_NOT_ALLOWED = ("Py4JSecurityException", "Cannot modify the value of a")

_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+)[\].]")
#: The last line of a Python traceback, which Spark puts in the middle of a Java stack trace.
_RAISED = re.compile(r"(?!java|org\.|py4j)[A-Za-z_][\w.]*(Error|Exception): .+")
_JAVA_TRACE = "JVM stacktrace:"
#: The words that Py4J puts before an error.
_CALLING = re.compile(r"An error occurred while calling [\w.:]+\s+: *")
#: Messages quote at most this many characters of Spark's error.
_LONGEST = 400


def is_refusal(error: Exception) -> bool:
    """Whether an error means that the session does not offer the requested feature.

    Lost connections, wrong values and all other errors are not refusals.
    """
    text = _text(error)
    return _condition(error) in _CONDITIONS or any(words in text for words in _NOT_ALLOWED)


def short_reason(error: Exception, *, longest: int = _LONGEST) -> str:
    """Return the line of an error that describes what happened.

    For a failed Spark task it is the Python error. It is never a line of a Java stack trace.
    """
    text = _CALLING.sub("", _text(error).partition(_JAVA_TRACE)[0])
    lines = [line.strip() for line in text.splitlines()]
    raised = [line for line in lines if _RAISED.match(line)]
    if raised:
        return raised[-1][:longest]
    first = next((line for line in lines if line), "")
    return f"{type(error).__name__}: {first}"[:longest]


def _condition(error: Exception) -> str:
    """Return the condition of an error, without its subclass; "" if the error has none."""
    # `getCondition` exists from PySpark 4 on, `getErrorClass` before.
    ask = getattr(error, "getCondition", None) or getattr(error, "getErrorClass", None)
    with suppress(Exception):  # it calls the JVM, which may be gone
        condition = ask() if ask else None
        if isinstance(condition, str) and condition:
            return condition.partition(".")[0]
    # Errors for which a client has no class have the condition in their text.
    found = _CONDITION.search(_text(error))
    return found[1] if found else ""


def _text(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # this also calls the JVM, which may be gone
        return ""
