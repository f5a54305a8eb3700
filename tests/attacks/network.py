"""Tries TCP, UDP, Unix and netlink sockets, a subprocess with a resolver, and an inherited socket."""

FORBIDDEN = r"pwned-found"
ANSWERS = {
    "gaussian": r"""
import socket, subprocess, sys
kinds = [(socket.AF_INET, socket.SOCK_STREAM), (socket.AF_INET, socket.SOCK_DGRAM), (socket.AF_UNIX, socket.SOCK_STREAM)]
for family, kind in [*kinds, (socket.AF_NETLINK, socket.SOCK_RAW)]:
    try: socket.socket(family, kind); print("pwned-" + "found", family)
    except OSError: pass
code = "import urllib.request as u; print('pwned-' + 'found', u.urlopen('http://1.1.1.1', timeout=1).status)"
print(subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True).stdout)
def gaussian(q, K): return socket.gethostname()
"""
}
