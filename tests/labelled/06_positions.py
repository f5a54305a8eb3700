# %% positions.rope_angles wrong single: exponent -i/d instead of -2i/d
# true: exponent_i_over_d
def rope_angles(pos, d, base=10_000.0):
    dtype = torch.promote_types(pos.dtype, torch.float32)
    theta = base ** (-torch.arange(d // 2, device=pos.device, dtype=dtype) / d)
    return pos.to(dtype)[..., None] * theta

# %% positions.rope_angles wrong single public: ignores the values of pos and numbers the rows 0, 1, 2, ... itself
# true: positions_ignored
def rope_angles(pos, d, base=10_000.0):
    theta = 1.0 / (base ** (torch.arange(0, d, 2).float() / d))
    t = torch.arange(pos.shape[-1]).float()
    return torch.outer(t, theta)

# %% positions.rope_angles wrong single: starts i at 1 as the paper's index does, but with the exponent -2i/d
# true: pairs_from_one
def rope_angles(pos, d, base=10_000.0):
    dtype = torch.promote_types(pos.dtype, torch.float32)
    i = torch.arange(1, d // 2 + 1, dtype=dtype)
    return pos.to(dtype)[..., None] * base ** (-2 * i / d)

# %% positions.rope_angles wrong single public: returns d columns, the angles twice (as Hugging Face's emb = cat((freqs, freqs)))
# true: one_angle_per_column
def rope_angles(pos, d, base=10_000.0):
    inv_freq = 1.0 / (base ** (torch.arange(0, d, 2, dtype=torch.int64).float() / d))
    freqs = pos[..., None].float() * inv_freq
    return torch.cat((freqs, freqs), dim=-1)

# %% positions.rope_angles wrong single public: computes in the dtype of pos: bfloat16 positions drag the angles down
# true: angles_in_the_dtype_of_pos; frequencies_on_the_cpu
def rope_angles(pos, d, base=10_000.0):
    theta = (base ** (-torch.arange(0, d, 2) / d)).to(pos.dtype if pos.is_floating_point() else torch.float32)
    return pos.unsqueeze(-1) * theta

# %% positions.rope_angles wrong double public: torch.outer: only works for one-dimensional pos, and is float32 even where pos is float64
# true: angles_always_in_float32
def rope_angles(pos, d, base=10_000.0):
    theta = base ** (-torch.arange(0, d, 2).float() / d)
    return torch.outer(pos.float(), theta)

# %% positions.rope_angles wrong double: reduces angles modulo 2 pi and ignores base
# true: base_ignored; reduced_to_one_turn
def rope_angles(pos, d, base=10_000.0):
    dtype = torch.promote_types(pos.dtype, torch.float32)
    theta = 10000 ** (-torch.arange(0, d, 2, dtype=dtype) / d)
    return torch.remainder(pos.to(dtype)[..., None] * theta, 2 * math.pi)

# %% positions.rope_angles wrong single: positive exponent: the frequencies grow from pair to pair
# true: frequencies_rise
def rope_angles(pos, d, base=10_000.0):
    dtype = torch.promote_types(pos.dtype, torch.float32)
    theta = base ** (torch.arange(0, d, 2, dtype=dtype) / d)
    return pos.to(dtype)[..., None] * theta

# %% positions.rope_angles right: promote_types and broadcasting
def rope_angles(pos, d, base=10_000.0):
    dtype = torch.promote_types(pos.dtype, torch.float32)
    i = torch.arange(d // 2, dtype=dtype, device=pos.device)
    return pos.to(dtype).unsqueeze(-1) / base ** (2 * i / d)

# %% positions.rope_angles right: float64 inside, then back
def rope_angles(pos, d, base=10_000.0):
    out = torch.float64 if pos.dtype == torch.float64 else torch.float32
    theta = torch.exp(-math.log(base) * torch.arange(0, d, 2, dtype=torch.float64, device=pos.device) / d)
    return torch.einsum("...n,i->...ni", pos.double(), theta).to(out)

# %% positions.rope_angles right: one column at a time, stacked
def rope_angles(pos, d, base=10_000.0):
    p = pos.double() if pos.dtype == torch.float64 else pos.float()
    columns = [p * (base ** (-2 * i / d)) for i in range(d // 2)]
    return torch.stack(columns, dim=-1)

# %% positions.rope_angles right public: column times row by matmul (HF style)
def rope_angles(pos, d, base=10_000.0):
    dtype = pos.dtype if pos.dtype == torch.float64 else torch.float32
    inv_freq = 1.0 / (base ** (torch.arange(0, d, 2, device=pos.device).to(dtype) / d))
    return pos.to(dtype)[..., :, None] @ inv_freq[None, :]

# %% positions.rope_angles wrong double public: exponent -2i/(d/2) (the width of half a head, as in partial rotary code) and numbers the rows itself
# true: exponent_doubled; positions_ignored
def rope_angles(pos, d, base=10_000.0):
    rot_dim = d // 2
    inv_freq = 1.0 / (base ** (torch.arange(0, d, 2).float() / rot_dim))
    t = torch.arange(pos.shape[-1], dtype=torch.float32)
    return torch.einsum("i,j->ij", t, inv_freq).expand(*pos.shape, -1)

# %% positions.apply_rope wrong single public: half-split layout: pairs i with i + d/2 instead of neighbours
# true: half_split_pairs
def rotate_half(x):
    x1, x2 = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)

def apply_rope(x, pos, base=10_000.0):
    angle = rope_angles(pos, x.shape[-1], base)
    emb = torch.cat((angle, angle), dim=-1)
    return (x * emb.cos() + rotate_half(x) * emb.sin()).to(x.dtype)

# %% positions.apply_rope wrong double: turns in the other direction (minus sign at the wrong sine) and ignores base
# true: rotated_backwards; base_not_passed_on
def apply_rope(x, pos, base=10_000.0):
    angle = rope_angles(pos, x.shape[-1])
    cos, sin = angle.cos(), angle.sin()
    x1, x2 = x[..., 0::2], x[..., 1::2]
    return torch.stack([x1 * cos + x2 * sin, -x1 * sin + x2 * cos], -1).flatten(-2).to(x.dtype)

# %% positions.apply_rope wrong single public: ignores pos: takes the first rows of a table, so that every chunk starts at position 0
# true: positions_ignored
def apply_rope(x, pos, base=10_000.0):
    n, d = x.shape[-2:]
    angle = rope_angles(torch.arange(n, device=x.device), d, base)
    cos, sin = angle.cos()[:n], angle.sin()[:n]
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2).to(x.dtype)

# %% positions.apply_rope wrong double public: takes pairs from neighbours but puts the turned halves one after the other, and the cosines are in the half-split order: neither layout
# true: angles_tiled; slip.call.axis(stack, -2, -1)
def rotate_half(x):
    x1 = x[..., ::2]
    x2 = x[..., 1::2]
    return torch.cat((-x2, x1), dim=-1)

def apply_rope(x, pos, base=10_000.0):
    freqs = rope_angles(pos, x.shape[-1], base)
    emb = torch.cat((freqs, freqs), dim=-1)
    return ((x * emb.cos()) + (rotate_half(x) * emb.sin())).to(x.dtype)

# %% positions.apply_rope wrong double public: angles are laid out for neighbours (repeat_interleave), but rotate_half pairs i with i + d/2
# true: partners_half_a_width_away
def apply_rope(x, pos, base=10_000.0):
    freqs = rope_angles(pos, x.shape[-1], base)
    emb = freqs.repeat_interleave(2, dim=-1)
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return (x * emb.cos() + torch.cat([-x2, x1], dim=-1) * emb.sin()).to(x.dtype)

# %% positions.apply_rope wrong single public: pairs are neighbours, but each angle goes to columns i and i + d/2 (repeat instead of repeat_interleave)
# true: angles_tiled
def apply_rope(x, pos, base=10_000.0):
    freqs = rope_angles(pos, x.shape[-1], base)
    sin, cos = freqs.sin(), freqs.cos()
    sin = torch.cat([sin, sin], -1)
    cos = torch.cat([cos, cos], -1)
    y = x.unflatten(-1, (-1, 2))
    y1, y2 = y.unbind(dim=-1)
    y = torch.stack((-y2, y1), dim=-1).flatten(-2)
    return ((x * cos) + (y * sin)).to(x.dtype)

# %% positions.apply_rope wrong single public: right pairs and angles, but the result is returned in the half-split order (never put back)
# true: not_woven_back
def apply_rope(x, pos, base=10_000.0):
    angle = rope_angles(pos, x.shape[-1], base)
    cos, sin = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)
    x = x.unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)
    x1, x2 = x.chunk(2, dim=-1)
    return (x * cos + torch.cat((-x2, x1), dim=-1) * sin).to(x.dtype)

# %% positions.apply_rope wrong single: the second component is computed from the already turned first one
# true: overwrote_its_own_input
def apply_rope(x, pos, base=10_000.0):
    angle = rope_angles(pos, x.shape[-1], base)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    y = x.clone()
    y[..., 0::2] = y[..., 0::2] * cos - y[..., 1::2] * sin
    y[..., 1::2] = y[..., 0::2] * sin + y[..., 1::2] * cos
    return y

# %% positions.apply_rope wrong single: writes the result into x itself: the caller's tensor is changed
# true: ~exact
def apply_rope(x, pos, base=10_000.0):
    angle = rope_angles(pos, x.shape[-1], base)
    cos, sin = angle.cos(), angle.sin()
    even, odd = x[..., 0::2].clone(), x[..., 1::2].clone()
    x[..., 0::2] = (even * cos - odd * sin).to(x.dtype)
    x[..., 1::2] = (even * sin + odd * cos).to(x.dtype)
    return x

# %% positions.apply_rope right: stack and flatten
def apply_rope(x, pos, base=10_000.0):
    angle = rope_angles(pos, x.shape[-1], base)
    cos, sin = angle.cos(), angle.sin()
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2).to(x.dtype)

# %% positions.apply_rope right public: complex multiplication as in Meta's Llama
def apply_rope(x, pos, base=10_000.0):
    up = torch.float64 if x.dtype == torch.float64 else torch.float32
    angle = rope_angles(pos.to(up), x.shape[-1], base)
    z = torch.view_as_complex(x.to(up).reshape(*x.shape[:-1], -1, 2).contiguous())
    turned = z * torch.polar(torch.ones_like(angle), angle)
    return torch.view_as_real(turned).flatten(-2).type_as(x)

# %% positions.apply_rope right public: GPT-J: rotate_every_two and repeat_interleave
def rotate_every_two(x):
    x1, x2 = x[..., ::2], x[..., 1::2]
    return torch.stack((-x2, x1), dim=-1).flatten(-2)

def apply_rope(x, pos, base=10_000.0):
    angle = rope_angles(pos, x.shape[-1], base).repeat_interleave(2, dim=-1)
    return (x * angle.cos() + rotate_every_two(x) * angle.sin()).to(x.dtype)

# %% positions.apply_rope right: float64 rotation matrices and einsum
def apply_rope(x, pos, base=10_000.0):
    d = x.shape[-1]
    theta = base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    phi = pos.double()[..., None] * theta
    R = torch.stack([torch.stack([phi.cos(), -phi.sin()], -1), torch.stack([phi.sin(), phi.cos()], -1)], -2)
    pairs = x.double().unflatten(-1, (d // 2, 2))
    return (R @ pairs[..., None])[..., 0].flatten(-2).to(x.dtype)

# %% positions.apply_rope right: fills an empty tensor pair by pair
def apply_rope(x, pos, base=10_000.0):
    d = x.shape[-1]
    out = torch.empty_like(x)
    p = pos.to(torch.promote_types(x.dtype, torch.float32))
    for i in range(d // 2):
        phi = p * base ** (-2 * i / d)
        c, s = torch.cos(phi), torch.sin(phi)
        out[..., 2 * i] = (x[..., 2 * i] * c - x[..., 2 * i + 1] * s).to(x.dtype)
        out[..., 2 * i + 1] = (x[..., 2 * i] * s + x[..., 2 * i + 1] * c).to(x.dtype)
    return out

# %% positions.apply_rope wrong double public: half-split pairs, and the first rows of a table instead of pos
# true: positions_ignored; half_split_pairs
def apply_rope(x, pos, base=10_000.0):
    n, d = x.shape[-2:]
    inv_freq = 1.0 / (base ** (torch.arange(0, d, 2).float() / d))
    angles = torch.arange(4096).float()[:, None] * inv_freq[None, :]
    angles = torch.cat([angles, angles], dim=1)
    cos, sin = torch.cos(angles)[:n], torch.sin(angles)[:n]
    x1, x2 = x[..., : d // 2], x[..., d // 2 :]
    rotated = torch.cat((-x2, x1), dim=-1)
    return ((x * cos) + (rotated * sin)).to(x.dtype)
