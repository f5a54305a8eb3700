"""Looks for tests, solutions, hidden packs, gradebook and secret in every folder it can list, and prints what it finds."""

FORBIDDEN = r"pwned-found"
GUESSED = ("course/nbgrader_config.py", "solutions/soft_lookup.py", "tests/sample_course/answers/soft_lookup.py")
RAN = {"list": r"/root (refused|\d+)", "read": "refused E(ACCES|NOENT)", "answer": "ran ndarray"}
_LOOK = f"""
import autograder, os
wanted = ("gradebook.db", ".secret", "soft_lookup.py", "01_soft_lookup.ipynb", "probes", "nbgrader_config.py")
clone = os.path.dirname(os.path.dirname(autograder.__file__))
tops = ["/work", "/root", "/home", "/srv", "/tmp", "/var", "/opt", "/mnt", "/dev/shm", "/proc/1/root", "..", clone]
for top in [*tops, os.path.expanduser("~")]:
    try: attack.after("list", top + " " + str(len(os.listdir(top))))
    except OSError: attack.after("list", top + " refused")
    for folder, names, files in os.walk(top):
        if folder.count("/") > 7 or "site-packages" in folder: names[:] = []
        for name in files:
            if any(word in name for word in wanted) and "/proc/self/root/" not in folder:
                try: print("pwned-" + "found", folder, name, open(os.path.join(folder, name), "rb").read(20))
                except OSError: pass
for path in {GUESSED!r}:
    try: print("pwned-" + "found", attack("read", lambda: open(os.path.join(clone, path)).read(20)))
    except OSError: pass
"""
ANSWERS = {"gaussian": _LOOK + "def gaussian(q, K): return attack('answer', lambda: 0 * q)"}
