"""Kills the submission's own process from an answer, so that what comes after would go unmarked or be marked wrongly."""

RAN = {"kill": "refused EPERM"}
INNOCENT = {"nadaraya_watson": "a right answer, to be marked in full"}
DESERVED = {"nadaraya_watson": 3.0}
ANSWERS = {
    "gaussian": "import os\ndef gaussian(q, K):\n    attack('kill', os.kill, os.getppid(), 9)\n    return 0",
    "nadaraya_watson": r"""
def nadaraya_watson(xq, x, y, width):
    w = np.exp(-(((xq[:, None] - x[None]) / width) ** 2) / 2)
    s = w.sum(-1, keepdims=True)
    return (w / np.where(s > 0, s, 1)) @ y
""",
}
