"""The diagrams of lessons 11 and 12."""

import itertools
import math

from attention_course.drawing import Drawing, Part


def decoder() -> Drawing:
    """A decoder of the Llama family, beside it the attention of a layer; each part with the lesson in which it was written."""
    d = Drawing(
        alt="The decoder. Tokens become rows of the embedding. Thirty layers follow, each adding attention and a "
        "feed-forward layer to the stream, a norm before each. After a last norm the embedding turns rows "
        "into logits. Beside it the attention of a layer: three projections, rotated queries and keys, the "
        "cache, grouped attention, the last projection. Yours are the rotation (06), the cache (07), the "
        "grouped attention (09), and today the attention (11.1) and the decoder (11.2)."
    )
    ids = d.text("tokens, n")
    embed = d.box("embedding", above=ids, gap=18)
    norm1 = d.box("norm", above=embed, gap=74)
    attend = d.box("attention", role="output", above=norm1, gap=18)
    add1 = d.node("+", above=attend, gap=18)
    norm2 = d.box("norm", above=add1, gap=26)
    ffn = d.box("feed-forward", above=norm2, gap=18)
    add2 = d.node("+", above=ffn, gap=18)
    last = d.box("norm", above=add2, gap=66)
    logits = d.box("embedding^T", above=last, gap=18)
    out = d.text("logits, n × 49,152", above=logits, gap=18)
    chain = [ids, embed, norm1, attend, add1, norm2, ffn, add2, last, logits, out]
    for a, b in itertools.pairwise(chain):
        d.arrow(a.top, b.bottom)
    x = embed.centre[0] - 92
    for norm, add in ((norm1, add1), (norm2, add2)):  # the stream goes on unchanged
        y = norm.bottom[1] + 10
        d.line((norm.centre[0], y), (x, y))
        d.line((x, y), (x, add.centre[1]))
        d.arrow((x, add.centre[1]), add.left)
    d.text("n × 576", size=13, right_of=embed, gap=-34, shift=(0, -32))
    d.frame([norm1, add2, ffn], "30 layers", pad=34)
    d.frame([ids, out, add2], "decoder, 11.2", pad=44)
    inside = _attention(d, norm1)
    d.arrow(attend.right, (inside.left[0], attend.centre[1]), dashed=True)
    return d


def _attention(d: Drawing, beside: Part) -> Part:
    q = d.box("W_Q", role="query", right_of=beside, gap=230, shift=(0, 74))
    k = d.box("W_K", role="key", right_of=q, gap=94)
    v = d.box("W_V", role="value", right_of=k, gap=94)
    turn_q = d.box("rotate, 06", role="position", above=q, gap=46)
    turn_k = d.box("rotate, 06", role="position", above=k, gap=46)
    keys = d.cache(6, 4, filled=4, new=1, role="key", cell=14, above=turn_k, gap=36)
    values = d.cache(6, 4, filled=4, new=1, role="value", cell=14, above=v, gap=118)
    d.text("cache,\n07", right_of=keys, gap=22)
    cached = d.frame([keys, values], role="cache", pad=10)
    gqa = d.box("grouped attention, 09", role="weight", above=k, gap=290, width=330)
    wo = d.box("heads merged, W_O", role="output", above=gqa, gap=40)
    for a, b, label in (
        (q, turn_q, "9 × n × 64"),
        (k, turn_k, "3 × n × 64"),
        (turn_k, keys, ""),
        (v, values, "3 × n × 64"),
        (turn_q, gqa, ""),
        (keys, gqa, "3 × m × 64"),
        (values, gqa, "3 × m × 64"),
        (gqa, wo, "9 × n × 64"),
    ):
        d.arrow(a.top, (a.centre[0], b.bottom[1]), label)
    return d.frame([q, v, turn_q, cached, gqa, wo], "attention, 11.1", role="output", pad=64)


def bill() -> Drawing:
    """The cache of one conversation, and beside it what is allowed, to one scale."""
    d = Drawing(
        alt="The cache of one conversation as a pile of 30 sheets, one for each layer. A sheet has a row for each "
        "of 8,192 tokens and 384 columns: keys and values of 3 groups, 64 features each. Each number has 16 "
        "bits. Together 189 MB; the budget is 100 MB, a little more than half of it."
    )
    pile = d.stack(6, (8, 12), role="cache", cell=18)
    d.brace(pile, "8,192 tokens", side="left")
    d.brace(pile, "2 · 3 · 64 = 384 numbers", side="below")
    d.text("30 layers,\n16 bits a number", right_of=pile, gap=44)
    whole = d.box("the bill: 189 MB", role="cache", right_of=pile, gap=200, width=284, shift=(0, -26))
    d.box("budget: 100 MB", role="output", below=whole, gap=14, align="start", width=150)
    return d


def lines_of_levels() -> Drawing:
    """Which numbers share their levels: those of a token, or those of a channel."""
    d = Drawing(
        alt="Two matrices of keys, tokens by features. Left, per token: the numbers of a row share their levels. "
        "Right, per channel: the numbers of a column share theirs, within a block of 64 tokens."
    )
    row, column = [(2, j) for j in range(8)], [(i, 5) for i in range(8)]
    left = d.matrix((8, 8), "per token", role="key", cell=20, sizes=("64 tokens", "64 features"), highlight=row)
    d.matrix((8, 8), "per channel", role="key", cell=20, highlight=column, right_of=left, gap=90)
    return d


def two_ellipses() -> Drawing:
    """Inputs and outputs of a matrix with the entries 1 and 2 on its diagonal, where the first input is the large one."""
    d = Drawing(
        alt="Left, the inputs: an ellipse three wide and half high. Right, the outputs: an ellipse three wide and "
        "one high, although the weight of the second direction is twice that of the first. Plain SVD keeps "
        "the vertical direction and loses 9 of 10; the choice that knows the inputs keeps the horizontal one "
        "and loses 1 of 10."
    )
    turn = [2 * math.pi * k / 60 for k in range(60)]
    one = d.axes(size=230, limit=3.6, xlabel="x_1", ylabel="x_2")
    one.polygon([(3 * math.cos(t), 0.5 * math.sin(t)) for t in turn], role="input")
    d.text("W →")
    two = d.axes(size=230, limit=3.6, xlabel="y_1", ylabel="y_2")
    two.polygon([(3 * math.cos(t), math.sin(t)) for t in turn], role="value")
    two.arrow((0, 2), "", role="plain")
    two.arrow((3, 0), "", role="output")
    plain = d.text("↑ plain: the larger weight.\nLoses 9 of 10.", gap=10, shift=(0, -46))
    d.text("→ the larger output.\nLoses 1 of 10.", role="output", below=plain, gap=18)
    return d


def latent_path() -> Drawing:
    """A decode step with a cache of latents and rotary positions: what stands between the query and W_UK."""
    d = Drawing(
        alt="A token's row becomes a latent, which goes into the cache. From the cache a path goes through W_UK "
        "and a rotation to the scores, where it meets the rotated query: the rotation stands between the "
        "query and W_UK. Another path leads to the averages, and behind them stands W_UV with nothing "
        "between."
    )
    x = d.vector(6, "x", role="input", cell=16)
    down = d.box("W_{DKV}", role="cache", right_of=x, gap=34)
    cache = d.cache(6, 4, filled=4, new=1, label="latents", role="cache", cell=16, gap=34)
    up = d.box("W_{UK}", role="key", right_of=cache, gap=50, shift=(0, -46))
    turn_k = d.box("rotate to\nits position", role="position", right_of=up, gap=34)
    score = d.box("scores,\nsoftmax", role="weight", right_of=turn_k, gap=40)
    turn_q = d.box("rotate", role="position", above=score, gap=34)
    query = d.box("x W_Q", role="query", left_of=turn_q, gap=40)
    mean = d.box("averages\nof latents", role="cache", below=score, gap=40)
    out = d.box("W_{UV}", role="value", right_of=mean, gap=40)
    steps = [(x, down), (down, cache), (cache, up), (up, turn_k), (turn_k, score)]
    steps += [(query, turn_q), (turn_q, score), (score, mean), (cache, mean), (mean, out)]
    for a, b in steps:
        d.arrow(a, b)
    return d


def fast_and_slow() -> Drawing:
    """A key whose fast pairs turn and whose slow pairs stand still."""
    d = Drawing(
        alt="A key of 32 pairs of features, fast pairs left, slow pairs right. The 16 fast ones turn and must be "
        "cached rotated. The 16 slow ones stand still, so they come out of the latent, and their part of W_UK "
        "is absorbed into the query."
    )
    fast = d.vector(16, "16 fast pairs turn", role="position", cell=18)
    slow = d.vector(16, "16 slow pairs stand still", role="key", cell=18, gap=0)
    kept = d.box("cached rotated", role="position", below=fast, gap=64)
    absorbed = d.box("out of the latent, W_{UK} absorbed", role="cache", below=slow, gap=64)
    d.arrow(fast, kept)
    d.arrow(slow, absorbed)
    return d
