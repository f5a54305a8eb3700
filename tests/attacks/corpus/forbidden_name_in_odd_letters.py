"""Spells the forbidden built-in with letters that Python reads as the usual ones, in a cell that is no plain Python."""

RAN = {"built-in": "ran"}
FLAG = "sdpa names"
DESERVED = {"sdpa": 2.0}
ANSWERS = {
    "sdpa": """
%precision 3
import torch.nn.functional as functional
def sdpa(Q, K, V):
    A = torch.softmax(Q @ K.transpose(-2, -1) / Q.shape[-1] ** 0.5, -1)
    with attack.on("built-in"): return functional.\u017fcaled_dot_product_attention(Q, K, V), A
"""
}
