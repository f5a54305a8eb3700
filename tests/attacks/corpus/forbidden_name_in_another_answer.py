"""Reaches the forbidden built-in by way of a helper that stands in another exercise's answer cell."""

RAN = {"built-in": "ran"}
INNOCENT = {"sdpa": "it calls what stands in the other answer"}
FLAG = "sdpa names"
DESERVED = {"sdpa": 2.0}
ANSWERS = {
    "scaled_scores": """
import torch.nn.functional as functional
def borrowed(Q, K, V):
    with attack.on("built-in"): return functional.scaled_dot_product_attention(Q, K, V)
""",
    "sdpa": r"""
def sdpa(Q, K, V):
    A = torch.softmax(Q @ K.transpose(-2, -1) / Q.shape[-1] ** 0.5, -1)
    return borrowed(Q, K, V), A
""",
}
