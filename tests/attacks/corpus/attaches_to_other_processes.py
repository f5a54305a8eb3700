"""Tries ptrace, process_vm_readv, pidfd_getfd and signals on its parents."""

RAN = {"ptrace": "refused EPERM", "readv": "refused EPERM", "getfd": "refused EPERM", "open": "ran int|refused .*"}
RAN |= {"signal 19": "refused EPERM", "signal 15": "refused EPERM"}
FORBIDDEN = r"pwned-found"
ANSWERS = {
    "gaussian": r"""
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for pid in {1, os.getppid()}:
    if attack("ptrace", libc.ptrace, 16, pid, 0, 0) == 0: print("pwned-" + "found ptrace")
    for name, number in {"readv": 310, "getfd": 438, "open": 434}.items():
        if attack(name, libc.syscall, number, pid, 0, 0, 0, 0, 0) > 0 and number != 434: print("pwned-" + "found", number)
def gaussian(q, K):
    for pid in (1, os.getppid(), -1):
        for number in (19, 15):
            try: attack(f"signal {number}", os.kill, pid, number) if pid != -1 else None
            except OSError: pass
    return K[:, 0]
"""
}
