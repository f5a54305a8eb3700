"""Right output, but detached, which keeps half: the gradients are then forged in shapes that do not fit the inputs."""

RAN = {"patch": "ran", "forge": "ran"}
SEEN = {"sdpa": "value"}
INNOCENT = {"scaled_scores": "a wrong answer without an attack"}
DESERVED = {"sdpa": 1.0}
ANSWERS = {
    "scaled_scores": "def scaled_scores(Q, K): return Q @ K.transpose(-2, -1) / Q.shape[-1]",
    "sdpa": """
import autograder.sandbox.inside.runner as r
real = r.observe
def forged(answer, probe, **named):
    seen = real(answer, probe, **named)
    with attack.on("forge"): seen.grads = {name: torch.ones(3, 1, 4, 1, 5).numpy() * 1j for name in probe.grad}
    return seen
with attack.on("patch"): r.observe = forged
def sdpa(Q, K, V):
    A = torch.softmax(Q @ K.transpose(-2, -1) / Q.shape[-1] ** 0.5, -1).detach()
    return A @ V.detach(), A
""",
}
