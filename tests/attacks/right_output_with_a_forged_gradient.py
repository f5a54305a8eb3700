"""Right output, but detached: the gradients are then forged in shapes that do not fit the inputs."""

DESERVED = {"sdpa": 0.0}
ANSWERS = {
    "scaled_scores": "def scaled_scores(Q, K): return Q @ K.transpose(-2, -1) / Q.shape[-1]",
    "sdpa": """
import autograder.sandbox.inside.runner as r
real = r.observe
def forged(answer, probe, **named):
    seen = real(answer, probe, **named)
    seen.grads = {name: torch.ones(3, 1, 4, 1, 5).numpy() * 1j for name in probe.grad}
    return seen
r.observe = forged
def sdpa(Q, K, V):
    A = torch.softmax(Q @ K.transpose(-2, -1) / Q.shape[-1] ** 0.5, -1).detach()
    return A @ V.detach(), A
""",
}
