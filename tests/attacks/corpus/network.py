"""Tries TCP, UDP, Unix and netlink sockets, a subprocess with a resolver, and an inherited socket."""

RAN = {f"socket {name}": "refused EPERM" for name in ("AF_INET", "AF_UNIX", "AF_NETLINK")}
RAN |= {"names": "ran", "inherited": "ran str", "program": "ran CompletedProcess", "its request": "armed", "answer": "ran str"}
FORBIDDEN = r"pwned-found"
ANSWERS = {
    "gaussian": r"""
import socket, subprocess, sys
kinds = [(socket.AF_INET, socket.SOCK_STREAM), (socket.AF_INET, socket.SOCK_DGRAM), (socket.AF_UNIX, socket.SOCK_STREAM)]
for family, kind in [*kinds, (socket.AF_NETLINK, socket.SOCK_RAW)]:
    try: attack(f"socket {family.name}", socket.socket, family, kind); print("pwned-" + "found", family)
    except OSError: pass
with attack.on("names"):
    try: print("pwned-" + "found", socket.getaddrinfo("example.com", 80))
    except OSError: pass
for descriptor in range(3, 64):
    try:
        inherited = socket.socket(fileno=descriptor)
        name = attack("inherited", inherited.getpeername)
        if name: print("pwned-" + "found", name)
        inherited.detach()
    except OSError: pass
code = "print('armed', flush=True); import urllib.request as u; "
code += "print('pwned-' + 'found', u.urlopen('http://1.1.1.1', timeout=1).status)"
done = attack("program", subprocess.run, [sys.executable, "-S", "-c", code], capture_output=True, text=True)
print(done.stdout)
attack.after("its request", "armed" if "armed" in done.stdout and "rror" in done.stderr else done.stderr)
def gaussian(q, K): return attack("answer", socket.gethostname)
"""
}
