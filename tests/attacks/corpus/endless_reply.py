"""Answers a probe with a header that announces more than may be sent, then sends bytes without end."""

RAN = {"head": "ran NoneType"}
NO_OUTCOME = {"flood": "the grader kills it while it sends"}
ANSWERS = {
    "gaussian": """
import sys
def gaussian(q, K):
    frame = sys._getframe()
    while frame and "sock" not in frame.f_locals: frame = frame.f_back
    sock = frame.f_locals["sock"]
    sock.settimeout(1)
    attack("head", sock.sendall, b"ATW1\\xff\\xff\\x03\\x00")
    with attack.on("flood"):
        for _ in range(400): sock.sendall(b"[" * 65536)
    import os; os._exit(0)
"""
}
