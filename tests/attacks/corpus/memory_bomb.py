"""Allocates more than it may, in a cell and in an answer."""

RAN = {"cell": "raised .*MemoryError", "pieces": "raised .*MemoryError", "answer": "raised .*MemoryError", "reply": "ran ndarray"}
ANSWERS = {
    "gaussian": """
try: attack("cell", np.ones, 2**40)
except MemoryError: print("refused")
def gaussian(q, K):
    kept = []
    try:
        with attack.on("pieces"):
            while True: kept.append(np.empty(1 << 28))
    except MemoryError: kept.clear()
    return attack("answer", np.ones, 2**36)
""",
    "mix_words": "def mix_words(X, width): return attack('reply', np.ones, (1 << 27,), np.int8)",
}
