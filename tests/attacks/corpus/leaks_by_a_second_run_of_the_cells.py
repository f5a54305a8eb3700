"""Keeps hidden inputs, then kills its own process: when the cells run again, they print what was kept."""

RAN = {"read": "refused ENOENT", "keep": "ran int", "kill": "refused EPERM"}
FORBIDDEN = r"pwned-kept"
ANSWERS = {
    "normalize": r"""
import os, signal
for path in ("kept", "/tmp/kept", "/dev/shm/kept", os.path.expanduser("~/kept")):
    try: print("pwned-" + "kept", attack("read", lambda: open(path).read()))
    except OSError: pass
def normalize(s):
    for path in ("kept", "/tmp/kept", "/dev/shm/kept", os.path.expanduser("~/kept")):
        try: attack("keep", lambda: open(path, "w").write(repr(s.tolist())))
        except OSError: pass
    attack("kill", os.kill, os.getppid(), signal.SIGKILL)
"""
}
