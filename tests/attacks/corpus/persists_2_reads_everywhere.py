"""Looks for what `persists_1_writes_everywhere` left."""

RAN = {"list": "ran list", "marks": "ran list", "date": "ran bool", "answer": "ran int"}
FORBIDDEN = r"pwned-left"
ANSWERS = {
    "gaussian": r"""
import os
for top in ("/tmp", "/dev/shm", os.path.expanduser("~"), os.environ.get("TMPDIR", "."), "..", "/dev", "/usr", "/"):
    listed = lambda: [n for n in os.listdir(top) if "pwned" in n]
    dated = lambda: os.stat(top).st_mtime > 3.9e9
    for name, action in {"list": listed, "marks": lambda: os.listxattr(top), "date": dated}.items():
        try:
            if attack(name, action): print("pwned-" + "left", top, action())
        except OSError: pass
def gaussian(q, K): return attack("answer", int)
"""
}
