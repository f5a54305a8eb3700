"""Fills its scratch folder with files, links, deep folders and names that are hard to delete."""

RAN = {
    "bytes": "refused ENOSPC|.* files",
    "link": "ran NoneType",
    "loop": "ran NoneType",
    "pipe": "refused EPERM",
    "names": "[1-9] of 5",
}
RAN |= {"depth": "ran", "many": "refused ENOSPC|ran", "answer": "ran int"}
ANSWERS = {
    "gaussian": r"""
import os
def tried(point, *what):
    try: return attack(point, *what)
    except OSError: pass
written = 0
for n in range(40):
    try: written += open(f"pwned{n}", "wb").write(bytes(4 << 20)) > 0
    except OSError: break
attack.after("bytes", f"{written} files")
os.makedirs("a/b")
tried("link", os.symlink, "/", "a/b/root")
tried("loop", os.symlink, "loop", "loop")
tried("pipe", os.mkfifo, "pipe")
made = 0
for name in ("-rf", "\n", "a" * 255, "*", "\udcff"):
    try: open(name, "w").close(); made += 1
    except OSError: pass
attack.after("names", f"{made} of 5")
os.makedirs("locked/in")
if os.access(".", os.W_OK):
    try: os.chmod("locked", 0)
    except OSError: pass
here = os.getcwd()
with attack.on("depth"):
    for _ in range(1500):
        os.mkdir("d"); os.chdir("d")
os.chdir(here)
try:
    with attack.on("many"):
        for n in range(3000): os.mkdir(f"m{n}")
except OSError: pass
def gaussian(q, K): return attack("answer", int)
"""
}
