"""Two bytes a number: what the model ships with. It doesn't fit into 100 MB."""

import torch


class Cache:
    bytes_per_token = 23_100

    def __init__(self, layer):
        self.keys = self.values = torch.zeros(3, 0, 64, dtype=torch.bfloat16)

    def append(self, keys, values):
        self.keys = torch.cat([self.keys, keys.bfloat16()], dim=1)
        self.values = torch.cat([self.values, values.bfloat16()], dim=1)

    def read(self):
        return self.keys.float(), self.values.float()
