"""Searches its own memory, the garbage collector and every process's /proc files for expected values."""

RAN = {"answer": "ran list", "list": "ran list|refused EACCES"}
RAN |= dict.fromkeys(("environ", "mem", "maps", "fd"), "refused E(ACCES|PERM|NOENT)")
FORBIDDEN = r"pwned-found"
ANSWERS = {
    "gaussian": r"""
import gc, os
def gaussian(q, K):
    attack("answer", gc.get_objects)
    for item in gc.get_objects():
        kind = type(item).__name__
        if kind in ("CaseRecord", "ExerciseRecord", "Pack"): return item.expected.value.arrays[0]
        if isinstance(item, dict) and "expected" in item and isinstance(item["expected"], np.ndarray): return item["expected"]
    return q
try: pids = attack("list", os.listdir, "/proc")
except OSError: pids = ["1", str(os.getppid())]
for pid in filter(str.isdigit, pids):
    if int(pid) == os.getpid(): continue
    for name in ("environ", "mem", "maps", "fd"):
        try:
            path = f"/proc/{pid}/{name}"
            size = 4096 if name == "environ" else 1
            got = attack(name, lambda: os.listdir(path) if name == "fd" else open(path, "rb").read(size))
            print("pwned-" + "found", path, got)
        except OSError: pass
"""
}
