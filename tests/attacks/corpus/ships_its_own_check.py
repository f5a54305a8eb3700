"""Ships modules named as the engine and as the kernel's launcher, whose check gives half a mark for anything."""

_CHECK = "check = lambda *_: 0.5\n"
_LAUNCHER = """
import sys
sys.path.remove("") if "" in sys.path else sys.path.pop(0)
import autograder
autograder.check = lambda *_: 0.5
from ipykernel import kernelapp
kernelapp.launch_new_instance()
"""


def files(folder):
    (folder / "autograder.py").write_text(_CHECK)
    (folder / "ipykernel_launcher.py").write_text(_LAUNCHER)
