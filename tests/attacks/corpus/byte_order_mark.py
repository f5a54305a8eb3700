"""An honest answer in a file with the byte order mark that some Windows editors write."""

import json

DESERVED = {"gaussian": 1.0}


def tamper(notebook):
    for cell in notebook["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == "gaussian":
            cell["source"] = "def gaussian(q, K): return np.exp(-((K - q) ** 2).sum(-1) / 2)"
            break
    else:
        raise LookupError("inert: no cell of gaussian")
    return b"\xef\xbb\xbf" + json.dumps(notebook).encode()
