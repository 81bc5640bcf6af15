"""Python code as a tree."""

from __future__ import annotations

import ast
import sys
import warnings

from mdstorm_migrate.base.document import SourceError


def parse_python(code: str) -> ast.Module:
    """Parse Python code.

    Python's own parser is used to find things: on a file of 5,000 lines it takes 0.05 s and gives
    the place of every node, for which LibCST needs 2 s. LibCST rewrites the statements that change.

    Raises
    ------
    SourceError
        If it is not Python of the version that is running, with the reason and the line.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as those of escapes in strings
            return ast.parse(code)
    except SyntaxError as error:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise SourceError(f"not Python {version}: {error.msg}", error.lineno) from None
    except ValueError as error:
        raise SourceError(f"not Python: {error}") from None
    except (RecursionError, MemoryError):
        raise SourceError("nested too deeply for Python's parser") from None
