"""Searches its own memory, the garbage collector and every process's /proc files for expected values."""

FORBIDDEN = r"pwned-found"
ANSWERS = {
    "gaussian": r"""
import gc, os
def gaussian(q, K):
    for item in gc.get_objects():
        kind = type(item).__name__
        if kind in ("CaseRecord", "ExerciseRecord", "Pack"): return item.expected.value.arrays[0]
        if isinstance(item, dict) and "expected" in item and isinstance(item["expected"], np.ndarray): return item["expected"]
    return q
for pid in [p for p in os.listdir("/proc") if p.isdigit()] if os.path.isdir("/proc/1") else []:
    if int(pid) == os.getpid(): continue
    for name in ("environ", "mem", "maps", "fd"):
        try:
            path = f"/proc/{pid}/{name}"
            got = os.listdir(path) if name == "fd" else open(path, "rb").read(4096 if name == "environ" else 1)
            print("pwned-" + "found", path, got)
        except OSError: pass
"""
}
