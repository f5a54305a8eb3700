"""Looks for what `persists_1_writes_everywhere` left."""

FORBIDDEN = r"pwned-left"
ANSWERS = {
    "gaussian": r"""
import os
for top in ("/tmp", "/dev/shm", os.path.expanduser("~"), os.environ.get("TMPDIR", "."), "..", "/dev", "/usr", "/"):
    listed = lambda: [n for n in os.listdir(top) if "pwned" in n]
    for action in (listed, lambda: os.listxattr(top), lambda: os.stat(top).st_mtime > 3.9e9):
        try:
            if action(): print("pwned-" + "left", top, action())
        except OSError: pass
def gaussian(q, K): return 0
"""
}
