"""Replaces judge, compare, observe, encode and check inside the process, as if marks were awarded there."""

RAN = {"functions": "_values check check_answer close compare diagnose judge( mark)?", "results": "ran", "answer": "ran ndarray"}
ANSWERS = {
    "gaussian": """
import sys
import autograder.workspace.in_cells.check
import autograder.judging.compare, autograder.judging.call_answer, autograder.diagnosis.explain, autograder.judging.values
full = lambda *a, **k: None
patched = set()
for module in [m for name, m in list(sys.modules.items()) if name.startswith("autograder")]:
    for name in ("judge", "compare", "_values", "close", "mark", "check", "check_answer", "diagnose"):
        if hasattr(module, name): setattr(module, name, full); patched.add(name)
attack.after("functions", " ".join(sorted(patched)))
with attack.on("results"): autograder.judging.records.Result.passed = property(lambda self: True)
def gaussian(q, K): return attack("answer", lambda: q * np.nan)
"""
}
