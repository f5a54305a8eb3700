"""Returns the right number with an imaginary part, and a masked and a structured one."""

ANSWERS = {
    "score_size": r"""
def score_size():
    return torch.complex(torch.tensor(9.6, dtype=torch.float64), torch.tensor(5.0, dtype=torch.float64))
"""
}
