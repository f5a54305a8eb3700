"""Fills its scratch folder with files, links, deep folders and names that are hard to delete."""

ANSWERS = {
    "gaussian": r"""
import os
for n in range(40):
    try: open(f"pwned{n}", "wb").write(bytes(4 << 20))
    except OSError: break
os.makedirs("a/b"); os.symlink("/", "a/b/root"); os.symlink("loop", "loop"); os.mkfifo("pipe")
for name in ("-rf", "\n", "a" * 255, "*", "\udcff"):
    try: open(name, "w").close()
    except OSError: pass
os.makedirs("locked/in");
here = os.getcwd()
for _ in range(1500):
    os.mkdir("d"); os.chdir("d")
os.chdir(here)
def gaussian(q, K): return 0
"""
}
