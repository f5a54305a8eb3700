# %% real_model.GroupedAttention wrong single: positions start at 0 in every call
# true: positions_from_zero
class GroupedAttention:
    def __init__(self, layer, capacity):
        self.layer, self.cache = layer, KVCache(capacity)
    @property
    def length(self):
        return self.cache.length
    def reset(self):
        self.cache.reset()
    def __call__(self, x):
        layer, H, G = self.layer, self.layer["H"], self.layer["G"]
        start = self.cache.length
        pos = torch.arange(x.shape[1])
        q = apply_rope(split_heads(x @ layer["W_Q"], H), pos, layer["base"])
        k = apply_rope(split_heads(x @ layer["W_K"], G), pos, layer["base"])
        v = split_heads(x @ layer["W_V"], G)
        K, V = self.cache.append(k, v)
        O, _ = gqa_grouped(q, K, V)
        return merge_heads(O) @ layer["W_O"]

# %% real_model.GroupedAttention wrong single: does not hand the layer's base to the rotation
# true: base_ignored
class GroupedAttention:
    def __init__(self, layer, capacity):
        self.layer, self.cache = layer, KVCache(capacity)
    @property
    def length(self):
        return self.cache.length
    def reset(self):
        self.cache.reset()
    def __call__(self, x):
        layer, H, G = self.layer, self.layer["H"], self.layer["G"]
        start = self.cache.length
        pos = torch.arange(start, start + x.shape[1], device=x.device)
        q = apply_rope(split_heads(x @ layer["W_Q"], H), pos)
        k = apply_rope(split_heads(x @ layer["W_K"], G), pos)
        v = split_heads(x @ layer["W_V"], G)
        K, V = self.cache.append(k, v)
        O, _ = gqa_grouped(q, K, V)
        return merge_heads(O) @ layer["W_O"]

# %% real_model.GroupedAttention wrong single: rotates the values as well
# true: values_rotated
class GroupedAttention:
    def __init__(self, layer, capacity):
        self.layer, self.cache = layer, KVCache(capacity)
    @property
    def length(self):
        return self.cache.length
    def reset(self):
        self.cache.reset()
    def __call__(self, x):
        layer, H, G = self.layer, self.layer["H"], self.layer["G"]
        start = self.cache.length
        pos = torch.arange(start, start + x.shape[1], device=x.device)
        q = apply_rope(split_heads(x @ layer["W_Q"], H), pos, layer["base"])
        k = apply_rope(split_heads(x @ layer["W_K"], G), pos, layer["base"])
        v = apply_rope(split_heads(x @ layer["W_V"], G), pos, layer["base"])
        K, V = self.cache.append(k, v)
        O, _ = gqa_grouped(q, K, V)
        return merge_heads(O) @ layer["W_O"]

# %% real_model.GroupedAttention wrong single: rotates before the split into heads: all heads together are taken for one wide head
# true: rotated_before_the_split
class GroupedAttention:
    def __init__(self, layer, capacity):
        self.layer, self.cache = layer, KVCache(capacity)
    @property
    def length(self):
        return self.cache.length
    def reset(self):
        self.cache.reset()
    def __call__(self, x):
        w = self.layer
        pos = self.length + torch.arange(x.shape[1])
        q = split_heads(apply_rope(x @ w["W_Q"], pos, w["base"]), w["H"])
        k = split_heads(apply_rope(x @ w["W_K"], pos, w["base"]), w["G"])
        K, V = self.cache.append(k, split_heads(x @ w["W_V"], w["G"]))
        return merge_heads(gqa_grouped(q, K, V)[0]) @ w["W_O"]

# %% real_model.GroupedAttention wrong single public: rotates in the half-split layout (Hugging Face's rotate_half)
# true: half_split
def rotate_half(x):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)

def rope(x, pos, base):
    inv_freq = 1.0 / base ** (torch.arange(0, x.shape[-1], 2).to(x.dtype) / x.shape[-1])
    angle = torch.outer(pos.to(x.dtype), inv_freq)
    emb = torch.cat((angle, angle), dim=-1)
    return x * emb.cos() + rotate_half(x) * emb.sin()

class GroupedAttention:
    def __init__(self, layer, capacity):
        self.layer, self.cache = layer, KVCache(capacity)
    @property
    def length(self):
        return self.cache.length
    def reset(self):
        self.cache.reset()
    def __call__(self, x):
        layer, H, G = self.layer, self.layer["H"], self.layer["G"]
        start = self.cache.length
        pos = torch.arange(start, start + x.shape[1], device=x.device)
        q = rope(split_heads(x @ layer["W_Q"], H), pos, layer["base"])
        k = rope(split_heads(x @ layer["W_K"], G), pos, layer["base"])
        v = split_heads(x @ layer["W_V"], G)
        K, V = self.cache.append(k, v)
        O, _ = gqa_grouped(q, K, V)
        return merge_heads(O) @ layer["W_O"]

# %% real_model.GroupedAttention wrong double: heads dealt by h mod G, and the upper-left mask of is_causal for chunks
# true: modulo; mask_upper_left
import torch.nn.functional as F

class GroupedAttention:
    def __init__(self, layer, capacity):
        self.layer, self.k, self.v = layer, None, None
    @property
    def length(self):
        return 0 if self.k is None else self.k.shape[2]
    def reset(self):
        self.k = self.v = None
    def __call__(self, x):
        w = self.layer
        H, G, n = w["H"], w["G"], x.shape[1]
        pos = torch.arange(self.length, self.length + n)
        q = apply_rope(split_heads(x @ w["W_Q"], H), pos, w["base"])
        k = apply_rope(split_heads(x @ w["W_K"], G), pos, w["base"])
        v = split_heads(x @ w["W_V"], G)
        self.k = k if self.k is None else torch.cat([self.k, k], dim=2)
        self.v = v if self.v is None else torch.cat([self.v, v], dim=2)
        K, V = self.k.repeat(1, H // G, 1, 1), self.v.repeat(1, H // G, 1, 1)
        O = F.scaled_dot_product_attention(q, K, V, is_causal=n > 1)
        return merge_heads(O) @ w["W_O"]

# %% real_model.GroupedAttention wrong double: positions restart at 0 and the values are rotated too
# true: positions_from_zero; values_rotated
class GroupedAttention:
    def __init__(self, layer, capacity):
        self.layer, self.cache = layer, KVCache(capacity)
    @property
    def length(self):
        return self.cache.length
    def reset(self):
        self.cache.reset()
    def __call__(self, x):
        layer, H, G = self.layer, self.layer["H"], self.layer["G"]
        start = self.cache.length
        pos = torch.arange(x.shape[1])
        q = apply_rope(split_heads(x @ layer["W_Q"], H), pos, layer["base"])
        k = apply_rope(split_heads(x @ layer["W_K"], G), pos, layer["base"])
        v = apply_rope(split_heads(x @ layer["W_V"], G), pos, layer["base"])
        K, V = self.cache.append(k, v)
        O, _ = gqa_grouped(q, K, V)
        return merge_heads(O) @ layer["W_O"]

# %% real_model.GroupedAttention wrong single: takes the query's positions from the length after the append
# true: ~mended
class GroupedAttention:
    def __init__(self, layer, capacity):
        self.layer, self.cache = layer, KVCache(capacity)
    @property
    def length(self):
        return self.cache.length
    def reset(self):
        self.cache.reset()
    def __call__(self, x):
        w, new = self.layer, torch.arange(x.shape[1])
        k = apply_rope(split_heads(x @ w["W_K"], w["G"]), self.length + new, w["base"])
        K, V = self.cache.append(k, split_heads(x @ w["W_V"], w["G"]))
        q = apply_rope(split_heads(x @ w["W_Q"], w["H"]), self.length + new, w["base"])
        return merge_heads(gqa_grouped(q, K, V)[0]) @ w["W_O"]

# %% real_model.GroupedAttention wrong single: moves the position on by one per call instead of by the number of tokens
class GroupedAttention:
    def __init__(self, layer, capacity):
        self.layer, self.cache, self.start = layer, KVCache(capacity), 0
    @property
    def length(self):
        return self.cache.length
    def reset(self):
        self.cache.reset()
        self.start = 0
    def __call__(self, x):
        w = self.layer
        pos = self.start + torch.arange(x.shape[1])
        self.start += 1
        q = apply_rope(split_heads(x @ w["W_Q"], w["H"]), pos, w["base"])
        k = apply_rope(split_heads(x @ w["W_K"], w["G"]), pos, w["base"])
        K, V = self.cache.append(k, split_heads(x @ w["W_V"], w["G"]))
        return merge_heads(gqa_grouped(q, K, V)[0]) @ w["W_O"]

# %% real_model.GroupedAttention right: KVCache and gqa_grouped
class GroupedAttention:
    def __init__(self, layer, capacity):
        self.layer, self.cache = layer, KVCache(capacity)
    @property
    def length(self):
        return self.cache.length
    def reset(self):
        self.cache.reset()
    def __call__(self, x):
        layer, H, G = self.layer, self.layer["H"], self.layer["G"]
        start = self.cache.length
        pos = torch.arange(start, start + x.shape[1], device=x.device)
        q = apply_rope(split_heads(x @ layer["W_Q"], H), pos, layer["base"])
        k = apply_rope(split_heads(x @ layer["W_K"], G), pos, layer["base"])
        v = split_heads(x @ layer["W_V"], G)
        K, V = self.cache.append(k, v)
        O, _ = gqa_grouped(q, K, V)
        return merge_heads(O) @ layer["W_O"]

# %% real_model.GroupedAttention right public: torch.cat and the builtin with enable_gqa and a mask
import torch.nn.functional as F

class GroupedAttention:
    def __init__(self, layer, capacity):
        self.w, self.past = layer, None
    @property
    def length(self):
        return self.past[0].shape[2] if self.past else 0
    def reset(self):
        self.past = None
    def __call__(self, x):
        w, n, start = self.w, x.shape[1], self.length
        pos = torch.arange(start, start + n, device=x.device)
        q = apply_rope((x @ w["W_Q"]).unflatten(-1, (w["H"], -1)).transpose(1, 2), pos, w["base"])
        k = apply_rope((x @ w["W_K"]).unflatten(-1, (w["G"], -1)).transpose(1, 2), pos, w["base"])
        v = (x @ w["W_V"]).unflatten(-1, (w["G"], -1)).transpose(1, 2)
        if self.past:
            k, v = torch.cat([self.past[0], k], 2), torch.cat([self.past[1], v], 2)
        self.past = (k, v)
        mask = torch.ones(n, start + n, dtype=torch.bool, device=x.device).tril(start)
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        return o.transpose(1, 2).flatten(2) @ w["W_O"]

# %% real_model.GroupedAttention right: complex rotation, loop over heads, list of tokens
import math

class GroupedAttention:
    def __init__(self, layer, capacity):
        self.layer, self.keys, self.values = layer, [], []
    @property
    def length(self):
        return len(self.keys)
    def reset(self):
        self.keys, self.values = [], []
    def _turn(self, x, p):
        d = x.shape[-1]
        theta = self.layer["base"] ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
        z = torch.view_as_complex(x.double().reshape(*x.shape[:-1], d // 2, 2).contiguous())
        return torch.view_as_real(z * torch.exp(1j * p * theta)).flatten(-2).to(x.dtype)
    def __call__(self, x):
        w = self.layer
        H, G = w["H"], w["G"]
        rows = []
        for t in range(x.shape[1]):
            p, row = len(self.keys), x[:, t]
            q = self._turn((row @ w["W_Q"]).unflatten(-1, (H, -1)), p)
            self.keys.append(self._turn((row @ w["W_K"]).unflatten(-1, (G, -1)), p))
            self.values.append((row @ w["W_V"]).unflatten(-1, (G, -1)))
            K, V = torch.stack(self.keys, 2), torch.stack(self.values, 2)
            out = []
            for h in range(H):
                g = h // (H // G)
                a = (q[:, h, None] * K[:, g]).sum(-1).div(math.sqrt(q.shape[-1])).softmax(-1)
                out.append((a[..., None] * V[:, g]).sum(1))
            rows.append(torch.cat(out, -1) @ w["W_O"])
        return torch.stack(rows, 1)

# %% real_model.GroupedAttention right public: preallocated token-major buffer, repeat_interleave (gpt-fast / Llama style)
import math

class GroupedAttention:
    def __init__(self, layer, capacity):
        self.layer, self.capacity, self.pos = layer, capacity, 0
        self.k_cache = self.v_cache = None
    @property
    def length(self):
        return self.pos
    def reset(self):
        self.pos, self.k_cache, self.v_cache = 0, None, None
    def __call__(self, x):
        w = self.layer
        b, n, _ = x.shape
        H, G = w["H"], w["G"]
        if self.k_cache is None:
            d = w["W_K"].shape[1] // G
            self.k_cache = x.new_zeros(b, self.capacity, G, d)
            self.v_cache = x.new_zeros(b, self.capacity, G, w["W_V"].shape[1] // G)
        positions = self.pos + torch.arange(n)
        xq = (x @ w["W_Q"]).view(b, n, H, -1).transpose(1, 2)
        xk = (x @ w["W_K"]).view(b, n, G, -1).transpose(1, 2)
        xq, xk = apply_rope(xq, positions, w["base"]), apply_rope(xk, positions, w["base"])
        self.k_cache[:b, self.pos : self.pos + n] = xk.transpose(1, 2)
        self.v_cache[:b, self.pos : self.pos + n] = (x @ w["W_V"]).view(b, n, G, -1)
        end = self.pos + n
        keys = self.k_cache[:b, :end].repeat_interleave(H // G, dim=2).transpose(1, 2)
        values = self.v_cache[:b, :end].repeat_interleave(H // G, dim=2).transpose(1, 2)
        scores = xq @ keys.transpose(2, 3) / math.sqrt(xq.shape[-1])
        mask = torch.full((n, end), float("-inf"), dtype=scores.dtype).triu(self.pos + 1)
        self.pos = end
        out = (scores + mask).softmax(-1) @ values
        return out.transpose(1, 2).reshape(b, n, -1) @ w["W_O"]

# %% real_model.GroupedAttention wrong double: positions start at 0 in every call, and base is dropped
# true: base_ignored; positions_from_zero
class GroupedAttention:
    def __init__(self, layer, capacity):
        self.layer, self.cache = layer, KVCache(capacity)
    @property
    def length(self):
        return self.cache.length
    def reset(self):
        self.cache.reset()
    def __call__(self, x):
        layer, H, G = self.layer, self.layer["H"], self.layer["G"]
        start = self.cache.length
        pos = torch.arange(x.shape[1])
        q = apply_rope(split_heads(x @ layer["W_Q"], H), pos)
        k = apply_rope(split_heads(x @ layer["W_K"], G), pos)
        v = split_heads(x @ layer["W_V"], G)
        K, V = self.cache.append(k, v)
        O, _ = gqa_grouped(q, K, V)
        return merge_heads(O) @ layer["W_O"]

# %% real_model.GroupedAttention wrong double public: half-split rotation, and heads dealt by h mod G
# true: half_split; modulo
def rope(x, pos, base):
    inv_freq = 1.0 / base ** (torch.arange(0, x.shape[-1], 2).to(x.dtype) / x.shape[-1])
    angle = torch.outer(pos.to(x.dtype), inv_freq)
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((x1 * angle.cos() - x2 * angle.sin(), x2 * angle.cos() + x1 * angle.sin()), dim=-1)

class GroupedAttention:
    def __init__(self, layer, capacity):
        self.layer, self.cache = layer, KVCache(capacity)
    @property
    def length(self):
        return self.cache.length
    def reset(self):
        self.cache.reset()
    def __call__(self, x):
        layer, H, G = self.layer, self.layer["H"], self.layer["G"]
        start = self.cache.length
        pos = torch.arange(start, start + x.shape[1], device=x.device)
        q = rope(split_heads(x @ layer["W_Q"], H), pos, layer["base"])
        k = rope(split_heads(x @ layer["W_K"], G), pos, layer["base"])
        v = split_heads(x @ layer["W_V"], G)
        K, V = self.cache.append(k, v)
        O, _ = gqa_grouped(q, K.repeat(1, H // G, 1, 1), V.repeat(1, H // G, 1, 1))
        return merge_heads(O) @ layer["W_O"]
