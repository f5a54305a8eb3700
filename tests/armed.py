"""Markers that an attack's payload really ran to its point of attack: without them, an inert attack looks like one that failed.

`armed(name, code)` puts `attack` before a payload, which the payload calls where it attacks:

- `attack("point", action, *given)` calls `action` and returns what it returns;
- `with attack.on("point"):` stands around statements;
- `attack.after("point", outcome)` says what was reached, or how often.

Each writes a line right before, and one right after with the outcome: `ran`, `ran TYPE` of what was returned, `refused EPERM`
or `raised TYPE`. The lines go through a descriptor that `listening` gives to every sandbox which is started meanwhile, so they
arrive from cells, answers, threads and forked processes, whatever became of what is printed.

What must arrive stands beside the payload, in `RAN`: a pattern for the outcome at each point; `None` and a reason in
`NO_OUTCOME` where nothing can be written afterwards, because the process is gone. `inert` says what is missing.
"""

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from autograder.sandbox import launch

CHANNEL = 200  # above the limit on open files, so that no attack which writes to each descriptor finds it
LOG = "attack.log"  # where there is no such descriptor: in the folder in which the payload runs
BEFORE, AFTER = "before", "after "

_PRELUDE = """
class _Attack:
    import ctypes, errno, os
    name, point = {name!r}, ""
    def __init__(self, point=""): self.point = point
    def tell(self, point, text):
        line = (self.name + "\\t" + point + "\\t" + ascii(text)[1:-1] + "\\n").encode()
        try: self.os.write({channel}, line)
        except OSError:
            try:
                with open({log!r}, "ab") as file: file.write(line)
            except OSError: pass
    def on(self, point): return _Attack(point)
    def after(self, point, outcome="ran"): self.tell(point, "after " + str(outcome))
    def __enter__(self): self.tell(self.point, "before")
    def __exit__(self, kind, error, trace):
        how = "ran" if kind is None else "raised " + kind.__name__
        if kind is not None and issubclass(kind, OSError): how = "refused " + self.errno.errorcode.get(error.errno, kind.__name__)
        self.tell(self.point, "after " + how)
    def __call__(self, point, action, *given, **named):
        self.tell(point, "before")
        try: value = action(*given, **named)
        except BaseException as error: _Attack(point).__exit__(type(error), error, None); raise
        number = self.ctypes.get_errno() if type(value) is int and value == -1 else 0
        self.tell(point, "after refused " + self.errno.errorcode[number] if number else "after ran " + type(value).__name__)
        return value
attack = _Attack()
"""

# Run by each worker before it serves: keeps the channel open where the sandbox closes all descriptors.
_KEEP = """
import os
os.dup2({descriptor}, {channel})
os.close({descriptor})
_close = os.closerange
def closerange(low, high):
    for first, last in ((low, min(high, {channel})), (max(low, {channel} + 1), high)):
        if first < last: _close(first, last)
os.closerange = closerange
"""
_SERVE = "from autograder.sandbox.inside.worker import main; "


def armed(name: str, code: str) -> str:
    """The payload `code` of the attack `name`, in which `attack` writes markers."""
    return _PRELUDE.format(name=name, channel=CHANNEL, log=LOG).lstrip() + code


def attacker(sources: Iterable[str]) -> str | None:
    """The name of the attack whose payload is in one of `sources`; None in a submission without one."""
    found = (re.search(r"^class _Attack:\n.*\n    name, point = '(\w+)'", source, re.MULTILINE) for source in sources)
    return next((match[1] for match in found if match), None)


@contextmanager
def listening(path: Path) -> Iterator[None]:
    """Let the payloads in all sandboxes that are started meanwhile write their markers to the file `path`."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    hook = f"exec(bytes.fromhex('{_KEEP.format(descriptor=descriptor, channel=CHANNEL).encode().hex()}')); "
    start = launch.start

    def start_listening(argv: list[str], env: dict[str, str], *, keep: Iterable[int], stderr: int) -> object:
        assert sum(part.count(_SERVE) for part in argv) == 1, "a worker is started in another way: markers do not come through"
        return start([part.replace(_SERVE, hook + _SERVE) for part in argv], env, keep=[*keep, descriptor], stderr=stderr)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "start", start_listening)
        try:
            yield
        finally:
            os.close(descriptor)


def note(path: Path, name: str, point: str, outcome: str) -> None:
    """Write a marker from the trusted side, of what it saw of the attack `name`."""
    with open(path, "a", encoding="utf-8") as file:
        file.write(f"{name}\t{point}\t{AFTER}{outcome}\n")


Markers = dict[str, dict[str, set[str]]]


def markers(path: Path) -> Markers:
    """What was written to `path`: by attack and point, "before" and each outcome."""
    found: Markers = defaultdict(lambda: defaultdict(set))
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []:
        if len(parts := line.split("\t")) == 3:
            found[parts[0]][parts[1]].add(parts[2])
    return found


def inert(found: Mapping[str, set[str]], ran: Mapping[str, str | None]) -> list[str]:
    """What is missing in the markers `found` of one attack, a line for each point: none where all of `ran` came to pass."""
    missing = []
    for point, pattern in ran.items():
        texts = found.get(point, set())
        outcomes = [text.removeprefix(AFTER) for text in texts if text.startswith(AFTER)]
        if not texts:
            missing.append(f"{point}: never reached")
        elif pattern is not None and not any(re.fullmatch(pattern, outcome) for outcome in outcomes):
            missing.append(f"{point}: expected {pattern!r}, got {sorted(outcomes) or 'nothing afterwards'}")
    missing += [f"{point}: reached, but not in RAN" for point in found if point not in ran]
    return missing
