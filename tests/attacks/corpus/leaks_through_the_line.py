"""Raises from one of a thousand lines, chosen by the hidden input: the line number would spell three digits."""

RAN = {"hidden": "ran"}
SEEN = {"gaussian": "value"}
FORBIDDEN = r"at line \d+"
ANSWERS = {
    "gaussian": "SEEN = VISIBLE_INPUTS\ndef gaussian(q, K):\n"
    "    if any(q.shape == s.shape and np.allclose(q, s) for s in SEEN): return np.exp(-((K - q) ** 2).sum(-1) / 2)\n"
    "    attack.after('hidden')\n"
    "    n = int(abs(q[0]) * 100) % 1000\n" + "".join(f"    if n == {n}: raise ValueError\n" for n in range(1000))
}
