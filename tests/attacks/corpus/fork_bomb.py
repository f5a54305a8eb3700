"""Forks as often as it may in a cell; the copies of the process go on, and read the grader's requests in its place."""

RAN = {"cell": "refused EAGAIN"}
ANSWERS = {
    "gaussian": """
import os, time
for _ in range(150):
    try:
        with attack.on("cell"):
            if os.fork() == 0: time.sleep(0.3)
    except OSError: break
"""
}
