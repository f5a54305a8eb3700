"""Uses the forbidden built-in beside a cell that does not parse, which used to hide it from the flag for a person."""

RAN = {"built-in": "ran"}
FLAG = "sdpa names"
DESERVED = {"sdpa": 2.0}
ANSWERS = {
    "sdpa": r"""
def sdpa(Q, K, V):
    A = torch.softmax(Q @ K.transpose(-2, -1) / Q.shape[-1] ** 0.5, -1)
    with attack.on("built-in"): return F.scaled_dot_product_attention(Q, K, V), A
import torch.nn.functional as F
"""
}


def tamper(notebook):
    notebook["cells"].append({"cell_type": "code", "id": "odd", "metadata": {}, "source": "this does not parse (", "outputs": []})
    return notebook
