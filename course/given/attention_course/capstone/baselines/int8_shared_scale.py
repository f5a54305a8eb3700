"""One byte a number, and one scale for all three heads of a token: 2 bytes for 192 numbers."""

import torch


class Cache:
    bytes_per_token = 11_700

    def __init__(self, layer):
        self.codes = torch.zeros(2, 3, 0, 64, dtype=torch.int8)
        self.scales = torch.zeros(2, 1, 0, 1, dtype=torch.bfloat16)

    def append(self, keys, values):
        x = torch.stack([keys, values])
        scale = (x.abs().amax(dim=(1, 3), keepdim=True) / 127).bfloat16()
        codes = (x / scale.float()).round().clamp(-127, 127).to(torch.int8)
        self.codes = torch.cat([self.codes, codes], dim=2)
        self.scales = torch.cat([self.scales, scale], dim=2)

    def read(self):
        return tuple(self.codes.float() * self.scales.float())
