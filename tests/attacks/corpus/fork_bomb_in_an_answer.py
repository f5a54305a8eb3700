"""Forks as often as it may in an answer."""

RAN = {"answer": "refused EAGAIN"}
ANSWERS = {
    "gaussian": """
import os, time
def gaussian(q, K):
    for _ in range(150):
        try:
            with attack.on("answer"):
                if os.fork() == 0: time.sleep(30)
        except OSError: break
    return 0
"""
}
