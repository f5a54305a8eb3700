"""Forks as often as it may, in a cell and in an answer."""

ANSWERS = {
    "gaussian": """
import os, time
def bomb(seconds):
    for _ in range(150):
        try:
            if os.fork() == 0: time.sleep(seconds)
        except OSError: break
def gaussian(q, K): bomb(30); return 0
bomb(0.3)
"""
}
