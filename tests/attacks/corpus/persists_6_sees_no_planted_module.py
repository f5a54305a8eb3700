"""Looks for planted modules and patched libraries of the submission before it."""

RAN = {"find": "ran (NoneType|ModuleSpec)"}
FORBIDDEN = r"pwned-left"
DESERVED = {"gaussian": 1.0}
ANSWERS = {
    "gaussian": r"""
import importlib.util
for name in ("sitecustomize", "usercustomize"):
    found = attack("find", importlib.util.find_spec, name)
    if found and "pwned" in open(found.origin).read(): print("pwned-" + "left", name)
def gaussian(q, K): return np.exp(-((K - q) ** 2).sum(-1) / 2)
"""
}
