"""Recognise what compute refuses, and tell Spark's errors in one line.

Serverless and shared compute refuse most configuration, the JVM and RDDs. Each version of Spark and
each kind of session has errors of its own for that, with the same error conditions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

#: Error conditions that mean: not here, rather than: not now.
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
#: What is said where there are no conditions: on clusters with table access control, and of
#: configuration before Spark had conditions for it.
_NOT_ALLOWED = ("Py4JSecurityException", "Cannot modify the value of a")

_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+)[\].]")
#: The last line of a traceback of Python, which Spark puts in the middle of one of Java.
_RAISED = re.compile(r"(?!java|org\.|py4j)[A-Za-z_][\w.]*(Error|Exception): .+")
_JAVA_TRACE = "JVM stacktrace:"
#: What Py4J says before the error itself.
_CALLING = re.compile(r"An error occurred while calling [\w.:]+\s+: *")
#: Characters of an error that a message repeats.
_LONGEST = 400


def is_refusal(error: Exception) -> bool:
    """Whether an error says that this compute does not offer what was asked for.

    A lost connection, a wrong value and everything else are no refusals.
    """
    text = _text(error)
    return _condition(error) in _CONDITIONS or any(words in text for words in _NOT_ALLOWED)


def short_reason(error: Exception, *, longest: int = _LONGEST) -> str:
    """Return the one line of an error that says what happened.

    That of a Spark task is the error of Python in it; no line of Java's stack is returned.
    """
    text = _CALLING.sub("", _text(error).partition(_JAVA_TRACE)[0])
    lines = [line.strip() for line in text.splitlines()]
    raised = [line for line in lines if _RAISED.match(line)]
    if raised:
        return raised[-1][:longest]
    first = next((line for line in lines if line), "")
    return f"{type(error).__name__}: {first}"[:longest]


def reason_among(error: Exception, name: str, texts: Iterable[str]) -> str:
    """Return, of an error or its causes in Java, the line with a name and one of some texts.

    It begins with that text, or before it, where Java begins to say what happened. It is empty if
    there is none.
    """
    for line in _text(error).splitlines():
        for text in texts:
            if name in line and text in line:
                found = line.index(text)
                start = max(line.rfind(end, 0, found) for end in (": ", ") "))  # of a class
                return line[start + 2 if start >= 0 else 0 :].strip()[:_LONGEST]
    return ""


def _condition(error: Exception) -> str:
    """Return the error condition, without its subclass; empty if there is none."""
    for name in ("getCondition", "getErrorClass"):  # from PySpark 4 on, and before
        ask = getattr(error, name, None)
        if ask is None:
            continue
        try:
            condition = ask()
        except Exception:  # it asks the JVM, which may be gone
            break
        if isinstance(condition, str) and condition:
            return condition.partition(".")[0]
        break
    # Errors that a client does not know by class have the condition in their text.
    found = _CONDITION.search(_text(error))
    return found[1] if found else ""


def _text(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # it asks the JVM as well
        return ""
