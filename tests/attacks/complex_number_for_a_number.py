"""Returns the right number with an imaginary part, and a masked and a structured one."""

ANSWERS = {
    "score_variance": r"""
def score_variance(d, trials, seed):
    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(trials, d, generator=generator, dtype=torch.float64)
    k = torch.randn(trials, d, generator=generator, dtype=torch.float64)
    s = (q * k).sum(-1)
    return torch.complex((s - s.mean()).square().mean(), torch.tensor(5.0, dtype=torch.float64))
"""
}
