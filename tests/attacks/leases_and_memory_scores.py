"""Leases files, so that whoever opens them waits, and lowers its own score, so that others go first where memory runs out."""

FORBIDDEN = r"pwned-found"
ANSWERS = {
    "gaussian": r"""
import ctypes, fcntl, os
open("mine", "w").close()
for path in ("mine", np.__file__, os.__file__):
    for kind in (fcntl.F_RDLCK, fcntl.F_WRLCK):
        try: fcntl.fcntl(os.open(path, os.O_RDONLY), fcntl.F_SETLEASE, kind); print("pwned-" + "found lease", path)
        except OSError: pass
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
for process in ("self", 1, os.getppid()):
    try: open(f"/proc/{process}/oom_score_adj", "w").write("0"); print("pwned-" + "found score", process)
    except OSError: pass
def gaussian(q, K): return 0
"""
}
