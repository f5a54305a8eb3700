"""Ends the process by exit, signal, segmentation fault and exec, in cells and answers."""

ANSWERS = {
    "gaussian": "import os, sys\ndef gaussian(q, K): os.execv('/bin/true', ['true'])",
    "boxcar": "def boxcar(q, K):\n    import ctypes; ctypes.string_at(0)",
    "triangular": "def triangular(q, K): raise SystemExit(0)",
    "normalize": "def normalize(w):\n    import signal; os.kill(os.getpid(), 9)",
    "epanechnikov": "exit()\nquit()\nraise SystemExit(0)",
    "hard_lookup": "import os; os._exit(0)",
}
