"""Blocks or ignores every signal, in a cell and in an answer, and never ends."""

NO_OUTCOME = dict.fromkeys(("cell", "answer"), "it is killed")
ANSWERS = {
    "mix_words": """
import signal
for number in (2, 14, 15): signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(0, range(1, 64))
with attack.on("cell"):
    while True: pass
""",
    "gaussian": """
def gaussian(q, K):
    with attack.on("answer"):
        while True:
            try:
                while True: pass
            except BaseException: pass
""",
}
