"""Defines its own `check` and display hook, so that a grade cell shows nothing, which is full marks in nbgrader."""

RAN = {"shadow": "ran", "hook": "ran", "answer": "ran NoneType"}
ANSWERS = {
    "gaussian": """
import builtins, sys
with attack.on("shadow"): check = builtins.check = lambda *_: None
with attack.on("hook"): sys.displayhook = lambda value: None
def gaussian(q, K): return attack("answer", check)
"""
}
