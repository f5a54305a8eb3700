"""A right answer just after the scratch folder was locked: it must not suffer."""

INNOCENT = {"gaussian": "its attack is the submission before it"}
DESERVED = {"gaussian": 1.0}
ANSWERS = {"gaussian": "def gaussian(q, K): return np.exp(-((K - q) ** 2).sum(-1) / 2)"}
