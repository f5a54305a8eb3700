"""Ends the process by exit, signal, segmentation fault and exec, in cells and answers."""

ANSWERS = {
    "gaussian": "import os, sys\ndef gaussian(q, K): os.execv('/bin/true', ['true'])",
    "attention_pool": "def attention_pool(q, K, V, kernel):\n    import ctypes; ctypes.string_at(0)",
    "mix_words": "def mix_words(X, width): raise SystemExit(0)",
    "normalize": "def normalize(s):\n    import signal; os.kill(os.getpid(), 9)",
    "leave_one_out": "exit()\nquit()\nraise SystemExit(0)",
    "hard_lookup": "import os; os._exit(0)",
}
