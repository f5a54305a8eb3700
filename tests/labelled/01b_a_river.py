# %% a_river.nadaraya_watson wrong single: normalised over the queries instead of the data points
# true: normalised_over_queries
def nadaraya_watson(xq, x, y, width):
    u = (xq[:, None] - x[None, :]) / width
    w = np.exp(-(u**2) / 2)
    a = w / w.sum(axis=0, keepdims=True)
    return a @ y

# %% a_river.nadaraya_watson wrong double: ignores the width; NaN where every score is rounded to 0
# true: width_ignored; zero_over_zero
def nadaraya_watson(xq, x, y, width):
    w = np.exp(-((xq[:, None] - x[None, :]) ** 2) / 2)
    return (w / w.sum(axis=1, keepdims=True)) @ y

# %% a_river.nadaraya_watson wrong double: h instead of h^2: exp(-diff^2 / (2 h)); NaN where every score is rounded to 0
# true: width_not_squared; zero_over_zero
def nadaraya_watson(xq, x, y, width):
    w = np.exp(-((xq[:, None] - x[None, :]) ** 2) / (2 * width))
    return (w / w.sum(axis=1, keepdims=True)) @ y

# %% a_river.nadaraya_watson wrong double public: multiplies by the width instead of dividing; shifts by the largest exponent
# true: multiplied_by_width; stable_softmax
def nadaraya_watson(xq, x, y, width):
    X = np.repeat(xq, len(x)).reshape(-1, len(x))
    logits = -(((X - x) * width) ** 2) / 2
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return (e / e.sum(axis=1, keepdims=True)) @ y

# %% a_river.nadaraya_watson wrong double: the factor 1/2 is missing; NaN where every score is rounded to 0
# true: no_half; zero_over_zero
def nadaraya_watson(xq, x, y, width):
    u = (xq[:, None] - x) / width
    w = np.exp(-(u**2))
    return w @ y / w.sum(axis=1)

# %% a_river.nadaraya_watson wrong single: not normalised
# true: not_normalised
def nadaraya_watson(xq, x, y, width):
    u = (xq[:, None] - x) / width
    return np.exp(-(u**2) / 2) @ y

# %% a_river.nadaraya_watson wrong double: keepdims missing in the division: rows divided by other rows' sums (an error unless n == m); NaN where every score is rounded to 0
# true: ~mended; zero_over_zero
def nadaraya_watson(xq, x, y, width):
    u = (xq[:, None] - x[None, :]) / width
    a = np.exp(-0.5 * u**2)
    a = a / a.sum(axis=1)
    return a @ y

# %% a_river.nadaraya_watson wrong double public: normalised over the queries, and 1/2 missing
# true: normalised_over_queries; slip.lost.divisor(2)
def nadaraya_watson(xq, x, y, width):
    dists = x.reshape((-1, 1)) - xq.reshape((1, -1))
    k = np.exp(-((dists / width) ** 2))
    k = k / k.sum(1, keepdims=True)
    return y @ k

# %% a_river.nadaraya_watson wrong double public: width ignored (d2l's fixed kernel exp(-2 x^2))
def nadaraya_watson(xq, x, y, width):
    dists = x.reshape((-1, 1)) - xq.reshape((1, -1))
    k = np.exp(-2 * dists**2)
    return y @ (k / k.sum(0))

# %% a_river.nadaraya_watson wrong double: absolute distance not squared: exp(-u/2); NaN where every score is rounded to 0
# true: difference_not_squared; zero_over_zero
def nadaraya_watson(xq, x, y, width):
    u = np.abs(xq[:, None] - x[None, :]) / width
    w = np.exp(-u / 2)
    return (w * y).sum(axis=1) / w.sum(axis=1)

# %% a_river.nadaraya_watson wrong double: divides by the number of data points instead of the sum of weights, with the density's 1/(h sqrt(2 pi))
def nadaraya_watson(xq, x, y, width):
    u = (xq[:, None] - x[None, :]) / width
    w = np.exp(-(u**2) / 2) / (width * np.sqrt(2 * np.pi))
    return (w * y).mean(axis=1)

# %% a_river.nadaraya_watson wrong single: subtracts the largest exponent of each row: a query out of reach of all points gets the nearest value instead of 0
# true: stable_softmax
def nadaraya_watson(xq, x, y, width):
    s = -0.5 * ((xq[:, None] - x[None, :]) / width) ** 2
    e = np.exp(s - s.max(axis=1, keepdims=True))
    return e @ y / e.sum(axis=1)

# %% a_river.nadaraya_watson right: naive exponentials with the lesson's normalize
def nadaraya_watson(xq, x, y, width):
    u = (xq[:, None] - x[None, :]) / width
    return normalize(np.exp(-(u**2) / 2)) @ y

# %% a_river.nadaraya_watson wrong single: 0/0 where every score is rounded to 0: NaN
# true: zero_over_zero
def nadaraya_watson(xq, x, y, width):
    dists = x.reshape((-1, 1)) - xq.reshape((1, -1))
    k = np.exp(-((dists / width) ** 2) / 2)
    k = k / k.sum(0)
    return y @ k

# %% a_river.nadaraya_watson wrong single: np.average refuses weights that sum to 0, where every score is rounded to 0
def nadaraya_watson(xq, x, y, width):
    return np.array([np.average(y, weights=np.exp(-(((x - p) / width) ** 2) / 2)) for p in xq])

# %% a_river.nadaraya_watson wrong double: h instead of h^2, and 1/2 missing: exp(-diff^2 / h)
def nadaraya_watson(xq, x, y, width):
    w = np.exp(-((xq[:, None] - x[None, :]) ** 2) / width)
    return w @ y / w.sum(axis=1)
