"""Prints megabytes, and twenty thousand small things one after another."""

RAN = {"megabytes": "ran NoneType", "answer": "ran NoneType"}
RAN |= dict.fromkeys(("small things", "more of them"), "ran|raised CellTimeout")
MAX_SECONDS = 40
ANSWERS = {
    "gaussian": """
def gaussian(q, K): return attack("answer", print, "y" * 9_000_000)
attack("megabytes", print, "x" * 9_000_000)
with attack.on("small things"):
    for n in range(20_000): display(n)
""",
    "mix_words": "with attack.on('more of them'):\n    for n in range(20_000): display(n)",
}
