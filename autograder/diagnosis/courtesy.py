"""An explanation is a courtesy: where finding one fails, the verdict stands without it, and nobody loses a mark.

In: the code that explains. Out: what it returns, or nothing where it raised. With `ATTN_STRICT=1`, as the tests run, exceptions
pass: each is an error of the explanation itself, because what a learner's code raises becomes a value where that code is run
(`observe`, `Written.build`).
"""

import contextlib
import os
from collections.abc import Iterator

STRICT = "ATTN_STRICT"


@contextlib.contextmanager
def courtesy() -> Iterator[None]:
    """Swallow the exceptions of an explanation, unless `ATTN_STRICT=1`.

    >>> with courtesy():
    ...     print("explained")
    explained
    """
    try:
        yield
    except Exception:
        if os.environ.get(STRICT) == "1":
            raise
