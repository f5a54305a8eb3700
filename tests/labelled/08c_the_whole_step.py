# %% the_whole_step.arithmetic_intensity wrong single: counts a multiplication with its addition as one FLOP
# true: half_the_work
def arithmetic_intensity(H, G, n, element_bytes):
    flops = 2 * H * n
    moved = (2 * G * n + 2 * H) * element_bytes
    return flops / moved

# %% the_whole_step.arithmetic_intensity wrong single public: leaves out the queries read and the outputs written
# true: queries_and_outputs_free
def arithmetic_intensity(H, G, n, element_bytes):
    return 4 * H * n / (2 * G * n * element_bytes)

# %% the_whole_step.arithmetic_intensity wrong single: reads keys but not values
# true: keys_only
def arithmetic_intensity(H, G, n, element_bytes):
    return 4 * H * n / ((G * n + 2 * H) * element_bytes)

# %% the_whole_step.arithmetic_intensity wrong single: scales the work by G instead of H: as if sharing saved FLOPs
# true: work_per_key_value_head
def arithmetic_intensity(H, G, n, element_bytes):
    return 4 * G * n / ((2 * G * n + 2 * H) * element_bytes)

# %% the_whole_step.arithmetic_intensity wrong double: FLOPs per number instead of per byte, and multiply-accumulates
# true: half_the_work; elements_for_bytes
def arithmetic_intensity(H, G, n, element_bytes):
    return 2 * H * n / (2 * G * n + 2 * H)

# %% the_whole_step.arithmetic_intensity wrong double: bytes per FLOP, and the outputs are not counted
# true: query_or_output; slip.result.reciprocal()
def arithmetic_intensity(H, G, n, element_bytes):
    bytes_moved = element_bytes * (2 * G * n + H)
    return bytes_moved / (4 * H * n)

# %% the_whole_step.arithmetic_intensity wrong single: counts the new token on top of the n
# true: slip.input.more(n)
def arithmetic_intensity(H, G, n, element_bytes):
    m = n + 1
    return 4 * H * m / (element_bytes * (2 * G * m + 2 * H))

# %% the_whole_step.arithmetic_intensity wrong single: reads keys and values of all H heads, whatever G is
# true: per_head_cache_still_read
def arithmetic_intensity(H, G, n, element_bytes):
    return 4 * H * n / (element_bytes * (2 * H * n + 2 * H))

# %% the_whole_step.arithmetic_intensity right: closed formula
def arithmetic_intensity(H, G, n, element_bytes):
    return 2 * H * n / (element_bytes * (G * n + H))

# %% the_whole_step.arithmetic_intensity right: with a width d that cancels
def arithmetic_intensity(H, G, n, element_bytes):
    d = 128
    flops = H * (2 * n * d) + H * (2 * n * d)
    numbers = G * n * d + G * n * d + H * d + H * d
    return flops / (numbers * element_bytes)

# %% the_whole_step.arithmetic_intensity right: exact fractions
def arithmetic_intensity(H, G, n, element_bytes):
    from fractions import Fraction
    return float(Fraction(4 * H * n, (2 * G * n + 2 * H) * element_bytes))

# %% the_whole_step.arithmetic_intensity wrong double public: multiply-accumulates, and only the cache in the traffic
# true: half_the_work; queries_and_outputs_free
def arithmetic_intensity(H, G, n, element_bytes):
    return H / (G * element_bytes)
