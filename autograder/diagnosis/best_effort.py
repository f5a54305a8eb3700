"""Keep errors in an explanation away from the verdict, so that nobody loses a mark because an explanation failed.

In: the code that explains. Out: its result, or nothing if it raised. With `ATTN_STRICT=1`, which the tests set, exceptions are
not suppressed. Each of them is an error in the explanation itself, because exceptions in learners' code are caught where that
code runs (`observe`, `Written.build`).
"""

import contextlib
import os
from collections.abc import Iterator

STRICT = "ATTN_STRICT"


@contextlib.contextmanager
def best_effort() -> Iterator[None]:
    """Suppress exceptions in an explanation, unless `ATTN_STRICT=1`.

    >>> with best_effort():
    ...     print("explained")
    explained
    """
    try:
        yield
    except Exception:
        if os.environ.get(STRICT) == "1":
            raise
