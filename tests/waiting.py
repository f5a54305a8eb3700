"""Wait for what another process does, however busy the machine is: a limit only ends what hangs."""

import contextlib
import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

WAIT_S = 600


def wait_until(happened: Callable[[], bool], pause_s: float = 0.1) -> None:
    """Wait until it `happened`. What it took is printed, and pytest shows that where the test fails."""
    began = time.monotonic()
    while time.monotonic() - began < WAIT_S:
        if happened():
            print(f"waited {time.monotonic() - began:.1f} of {WAIT_S} s")
            return
        time.sleep(pause_s)
    raise AssertionError(f"it did not happen within {WAIT_S} s")


def wait_for_server(url: str, server: "subprocess.Popen[Any]", log: Path) -> None:
    """Wait until `url` answers. Fails with the log if the server ends before."""

    def answers() -> bool:
        assert server.poll() is None, "the server ended"
        with contextlib.suppress(OSError):
            urllib.request.urlopen(url, timeout=20).close()
            return True
        return False

    try:
        wait_until(answers, pause_s=0.25)
    except AssertionError as error:
        raise AssertionError(f"{error}: {log.read_text(encoding='utf-8')}") from None
