"""Puts the forbidden built-in into a table by a statement that sets another name, so that the answer only reads the table."""

RAN = {"built-in": "ran"}
INNOCENT = {"scaled_scores": "it fills the table"}
FLAG = "sdpa names"
DESERVED = {"sdpa": 2.0}
ANSWERS = {
    "scaled_scores": """
import torch.nn.functional as functional
tools = []
for tool in [functional.scaled_dot_product_attention]: _ = tools.append(tool)
""",
    "sdpa": r"""
def sdpa(Q, K, V):
    A = torch.softmax(Q @ K.transpose(-2, -1) / Q.shape[-1] ** 0.5, -1)
    with attack.on("built-in"): return tools[0](Q, K, V), A
""",
}
