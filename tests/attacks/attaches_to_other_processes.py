"""Tries ptrace, process_vm_readv, pidfd_getfd and signals on its parents."""

FORBIDDEN = r"pwned-found"
ANSWERS = {
    "gaussian": r"""
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for pid in {1, os.getppid()}:
    if libc.ptrace(16, pid, 0, 0) == 0: print("pwned-" + "found ptrace")
    for number in (310, 438, 434):
        if libc.syscall(number, pid, 0, 0, 0, 0, 0) > 0 and number != 434: print("pwned-" + "found", number)
def gaussian(q, K):
    for pid in (1, os.getppid(), -1):
        for number in (19, 15):
            try: os.kill(pid, number) if pid != -1 else None
            except OSError: pass
    return K[:, 0]
"""
}
