"""Leaves marks wherever a file, attribute, time or mode can be changed, for `persists_2_reads_everywhere` to find."""

RAN = {"write": "ran int", "make": "ran NoneType", "mark": "ran NoneType|refused EPERM", "date": "ran NoneType|refused EPERM"}
RAN |= {"answer": "ran int"}
ANSWERS = {
    "gaussian": r"""
import os
for top in ("/tmp", "/dev/shm", os.path.expanduser("~"), os.environ.get("TMPDIR", "."), "..", "/dev", "/usr", "/"):
    write = lambda: open(os.path.join(top, "pwned"), "w").write("pwned-left")
    make = lambda: os.mkdir(os.path.join(top, "pwned-folder"))
    mark = lambda: os.setxattr(top, "user.pwned", b"left")
    date = lambda: os.utime(top, (4_000_000_000, 4_000_000_000))
    for name, action in {"write": write, "make": make, "mark": mark, "date": date}.items():
        try: attack(name, action)
        except OSError: pass
def gaussian(q, K): return attack("answer", int)
"""
}
