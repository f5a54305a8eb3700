"""Leases files, so that whoever opens them waits, and lowers its own score, so that others go first where memory runs out."""

RAN = {"lease": "refused EPERM", "dump": "ran int", "score": "refused (EROFS|EACCES)", "answer": "ran int"}
FORBIDDEN = r"pwned-found"
ANSWERS = {
    "gaussian": r"""
import ctypes, fcntl, os
open("mine", "w").close()
for path in ("mine", np.__file__, os.__file__):
    for kind in (fcntl.F_RDLCK, fcntl.F_WRLCK):
        try: attack("lease", fcntl.fcntl, os.open(path, os.O_RDONLY), fcntl.F_SETLEASE, kind); print("pwned-" + "found", path)
        except OSError: pass
attack("dump", ctypes.CDLL(None).prctl, 4, 1, 0, 0, 0)
for process in ("self", 1, os.getppid()):
    try: attack("score", lambda: open(f"/proc/{process}/oom_score_adj", "w").write("0")); print("pwned-" + "found score", process)
    except OSError: pass
def gaussian(q, K): return attack("answer", int)
"""
}
