"""Returns the right numbers with an imaginary part."""

RAN = {"complex": "ran Tensor"}
ANSWERS = {
    "softmax_jacobian": r"""
def softmax_jacobian(s):
    a = torch.softmax(s, dim=-1)
    J = torch.diag(a) - torch.outer(a, a)
    return attack("complex", torch.complex, J, torch.full_like(J, 5.0))
"""
}
