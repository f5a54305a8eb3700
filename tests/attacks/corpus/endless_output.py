"""Prints without end, in a cell and in an answer."""

RAN = {"cell": "raised CellTimeout"}
NO_OUTCOME = {"answer": "it is killed where its seconds are over"}
ANSWERS = {
    "gaussian": """
def gaussian(q, K):
    with attack.on("answer"):
        while True: print("endless", flush=True)
with attack.on("cell"):
    while True: print("endless", flush=True)
"""
}
