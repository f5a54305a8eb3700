"""One byte a number, in an 8-bit floating-point format without scales."""

import torch


class Cache:
    bytes_per_token = 11_550

    def __init__(self, layer):
        self.keys = self.values = torch.zeros(3, 0, 64, dtype=torch.float8_e4m3fn)

    def append(self, keys, values):
        self.keys = torch.cat([self.keys, keys.to(torch.float8_e4m3fn)], dim=1)
        self.values = torch.cat([self.values, values.to(torch.float8_e4m3fn)], dim=1)

    def read(self):
        return self.keys.float(), self.values.float()
