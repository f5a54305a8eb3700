"""Reaches the forbidden built-in by a pattern whose class says at run time which attribute to look for."""

RAN = {"built-in": "ran"}
FLAG = "sdpa may build a name"
DESERVED = {"sdpa": 2.0}
ANSWERS = {
    "sdpa": r"""
import torch.nn.functional as F
class Anything(type):
    def __instancecheck__(cls, _): return True
class Part(metaclass=Anything):
    __match_args__ = ("scaled_dot" + "_product_attention",)
def sdpa(Q, K, V):
    A = torch.softmax(Q @ K.transpose(-2, -1) / Q.shape[-1] ** 0.5, -1)
    with attack.on("built-in"):
        match F:
            case Part(found): return found(Q, K, V), A
""",
}
