"""Prints megabytes, and twenty thousand small things one after another."""

MAX_SECONDS = 40
ANSWERS = {
    "gaussian": "print('x' * 9_000_000)\nfor n in range(20_000): display(n)\ndef gaussian(q, K): return print('y' * 9_000_000)",
    "mix_words": "for n in range(20_000): display(n)",
}
