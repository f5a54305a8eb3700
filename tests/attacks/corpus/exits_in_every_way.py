"""Ends the process by exit, signal, segmentation fault and exec, in cells and answers."""

RAN = {
    "SystemExit": "raised SystemExit",
    "exit": "raised AttributeError",
    "quit": "raised AttributeError",
    "raise": "raised SystemExit",
}
NO_OUTCOME = dict.fromkeys(("exec", "fault", "kill", "_exit"), "the process is gone")
ANSWERS = {
    "gaussian": "import os\ndef gaussian(q, K): attack('exec', os.execv, '/bin/true', ['true'])",
    "attention_pool": "def attention_pool(q, K, V, kernel):\n    import ctypes; attack('fault', ctypes.string_at, 0)",
    "mix_words": "def mix_words(X, width):\n    with attack.on('SystemExit'): raise SystemExit(0)",
    "normalize": "def normalize(s):\n    import os; attack('kill', os.kill, os.getpid(), 9)",
    "leave_one_out": """
for name, end in {"exit": exit, "quit": quit}.items():
    try: attack(name, end)
    except AttributeError: pass
with attack.on("raise"): raise SystemExit(0)
""",
    "hard_lookup": "import os; attack('_exit', os._exit, 0)",
}
