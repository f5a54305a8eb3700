"""Looks for tests, solutions, hidden packs, gradebook and secret in every folder it can list, and prints what it finds."""

FORBIDDEN = r"pwned-found"
_LOOK = r"""
import glob, os, sys
wanted = ("gradebook.db", ".secret", "soft_lookup.py", "01_soft_lookup.ipynb", "probes", "nbgrader_config.py")
tops = ["/work", "/root", "/home", "/srv", "/tmp", "/var", "/opt", "/mnt", "/proc/1/root", "..", os.path.expanduser("~")]
for top in tops:
    for folder, names, files in os.walk(top):
        if folder.count("/") > 7 or "site-packages" in folder: names[:] = []
        for name in files:
            if any(word in name for word in wanted) and "/proc/self/root/" not in folder:
                try: print("pwned-" + "found", folder, name, open(os.path.join(folder, name), "rb").read(20))
                except OSError: pass
"""
ANSWERS = {"gaussian": _LOOK + "def gaussian(q, K): return 0 * q"}
