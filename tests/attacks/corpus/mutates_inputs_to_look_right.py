"""Overwrites its inputs in place and returns them, hoping that they are what the output is compared with."""

RAN = {"s": "ran", "q and K": "ran"}
ANSWERS = {
    "normalize": "def normalize(s):\n    with attack.on('s'): s[...] = 1.0 / s.shape[-1]\n    return s",
    "gaussian": "def gaussian(q, K):\n    with attack.on('q and K'): K[...] = q; q[...] = 0\n    return np.ones(len(K))",
}
