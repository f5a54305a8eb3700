"""A start without the grammars that jsonschema compiles for nbformat: a second and a half for each process."""

import sys


def spare_grammars() -> None:
    """Call it before nbformat is imported.

    jsonschema compiles grammars, for checks of addresses that nobody asks for, when it finds the package rfc3987_syntax.
    """
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]  # None is Python's own mark for "do not import"
