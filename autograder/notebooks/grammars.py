"""Start faster by not compiling the grammars that jsonschema would load with nbformat, which takes 1.5 seconds per process."""

import sys


def spare_grammars() -> None:
    """Keep jsonschema from compiling its grammars. Call this before nbformat is imported.

    If jsonschema finds the package rfc3987_syntax, it compiles grammars for checks of addresses that nobody uses.
    """
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]  # None is Python's own mark for "do not import"
