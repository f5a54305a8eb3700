"""Workshop 10d: what several GPUs must exchange, what fits on them, and what a sparse prompt reads."""


def sent_per_step(way: str, H: int, n: int, d_c: int) -> int:
    r"""How many numbers each GPU has to send to the others, for one new token in one
    layer, so that the outputs are exact.

    All `H` heads attend to `n` tokens, each with a latent of `d_c` numbers, and all
    GPUs know the absorbed queries. `way` says what a GPU keeps: "features" is the same
    part of **every** latent, "tokens" is a part of the tokens with their whole latents,
    and "conversations" is everything that belongs to some of the users. Each GPU
    computes what it can from what it keeps, and it puts what the others need into as
    few numbers as it can. It sends all of them to every other GPU, as in an all-gather,
    and each number counts once, however many GPUs receive it. The step ends when every
    number of all heads' averages of latents is final. The numbers of one average may
    then be on different GPUs.

    >>> sent_per_step("conversations", H=2, n=100, d_c=5)
    0

    Source: for "tokens", decode context parallelism as SGLang documents it.
    """
    if way == "features":
        return H * n  # a partial sum of every score, before the softmax
    if way == "tokens":
        return H * (d_c + 1)  # an average of its tokens, and their log-sum-exp
    return 0


def tokens_gained() -> float:
    """How many times as many tokens fit into the caches of eight GPUs if each of them
    serves whole conversations, compared with some heads of all conversations?

    DeepSeek-V3 has 671 billion parameters of one byte each, and 11.4 billion of them
    belong to attention. Each GPU has 141 GB. Parameters and caches take all of it. In
    both cases the other parameters are split evenly over the eight GPUs. A GPU that
    serves whole conversations needs all parameters of attention.
    """
    memory, parameters, attention, gpus = 141.0, 671.0, 11.4, 8
    split = memory - parameters / gpus  # on each GPU, for the same tokens as the others
    whole = memory - (parameters - attention) / gpus - attention  # for its own tokens
    return gpus * whole / split


def sparse_gain() -> float:
    """How many times faster can absorbed attention be than attention to ready-made keys
    and values, if each query attends to 2,048 tokens of its own?

    Compare the bounds of one query in one layer, where a bound is the longer of its
    two times for bytes and for arithmetic. There are 128 heads, the sizes are d = d_v =
    128, d_rope = 64 and d_c = 512, and a number has two bytes. Ready-made keys are
    stored for every head with their rotated part, so they are 192 wide. The chip does
    790 TFLOP/s and reads 4.3 TB/s. Nothing that one query reads serves another.
    """
    tokens, H, d, d_rope, d_c = 2048, 128, 128, 64, 512
    peak, bandwidth = 790e12, 4.3e12
    width = d + d_rope + d  # a score and a mixture
    made = max(2 * tokens * H * width / bandwidth, 2 * tokens * H * width / peak)
    read = 2 * tokens * (d_c + d_rope) / bandwidth
    absorbed = max(read, 2 * tokens * H * (d_c + d_rope + d_c) / peak)
    return made / absorbed
