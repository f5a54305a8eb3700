"""The picture of lesson 09 that moves: the heads of a real model, what they share, and the bill for it."""

from attention_course.drawing import Drawing
from attention_course.moving import Moving, slider

LAYERS, HEADS, WIDTH, WEIGHTS_GB = 80, 64, 128, 141  # Llama 3.1 70B in bfloat16; its config.json says 8 heads of keys and values
_APART, _GB = 11, 1.4  # pixels from head to head, and for a gigabyte


def shared(G: int, tokens: int) -> Drawing:
    """One layer with `G` heads of keys and values, and what one conversation of `tokens` tokens then takes in all layers."""
    d = Drawing(
        alt=f"{HEADS} query heads, {G} heads of keys and values, and the bytes of the caches beside those of the weights."
    )
    y, middle, r = 92, _APART * HEADS / 2, HEADS // G
    queries = d.matrix((1, HEADS), role="query", cell=(_APART, 16), at=(middle, 0))
    d.text(f"{HEADS} heads of queries", role="query", size=14, at=(middle, -24))
    for g in range(G):
        own = [queries.cell(0, h) for h in range(g * r, (g + 1) * r)]
        x, wide = sum(q.centre[0] for q in own) / r, min(30, r * _APART - 3)
        key = d.matrix((1, 1), role="key", cell=(wide, 16), at=(x, y))
        d.matrix((1, 1), role="value", cell=(wide, 16), at=(x, y + 16))
        for query in own:
            d.line(query.bottom, key.top, width=1)
    stored, heads = 2 * G * WIDTH * 2, f"{G} head{'s' if G > 1 else ''}"
    said = f"{heads} of keys, {heads} of values{' (as in the model)' if G == 8 else ''}: {stored:,} bytes per token and layer"
    d.text(said, size=14, at=(middle, y + 44))
    bill = stored * LAYERS * tokens / 1e9
    for i, (name, role, gb) in enumerate(
        (("the weights", "input", WEIGHTS_GB), (f"the cache of {tokens:,} tokens", "cache", bill))
    ):
        below = y + 88 + 32 * i
        long = max(_GB * gb, 2)
        bar = d.matrix((1, 1), role=role, cell=(long, 20), at=(190 + long / 2, below))
        d.text(name, size=14, left_of=bar, gap=10)
        d.text(f"{gb:,.0f} GB" if gb >= 20 else f"{gb:.1f} GB", size=14, bold=True, right_of=bar, gap=10)
    d._cover((190 + _GB * 344 + 75, 0))  # all frames of one size
    return d


def heads_and_bill() -> Moving:
    """The same for every number of groups and three lengths of a conversation."""
    return slider(
        lambda G, tokens: shared(G, int(tokens.replace(",", ""))),
        G=[64, 32, 16, 8, 4, 2, 1],
        tokens=["8,192", "32,768", "131,072"],
        start={"G": 8, "tokens": "131,072"},
        labels={"G": "heads of keys and values, G", "tokens": "tokens in the conversation"},
        alt=(
            "One layer of Llama 3.1 70B: 64 query heads joined, eight by eight, to 8 heads of keys and values, "
            "4,096 bytes for each token. Below, two bars to scale: the weights, 141 GB, and the cache of 131,072 "
            "tokens, 43 GB. With 64 heads of keys and values the second bar is 344 GB long, with one 5.4 GB."
        ),
    )


def chips() -> Drawing:
    """Eight chips with eight query heads each, and what they cache of 16, 8 and 4 groups: below 8 there are copies."""
    d = Drawing(
        alt="Eight chips, three times. Each computes 8 of the 64 query heads. With 16 groups a chip caches two groups, four "
        "of its heads reading each; with 8 groups one, which all its heads read. With 4 groups it still caches one: chips 1, "
        "3, 5 and 7 hold copies of what chips 0, 2, 4 and 6 hold."
    )
    cell, wide, tall = 12, 130, 84
    for i, G in enumerate((16, 8, 4)):
        d.text(f"G = {G}", bold=True, at=(wide * i, -56))
    for chip in range(8):
        y = tall * chip
        d.text(f"chip {chip}", bold=True, size=14, at=(-108, y - 10))
        d.text(f"heads {8 * chip}–{8 * chip + 7}", role="query", size=14, at=(-108, y + 10))
        for i, G in enumerate((16, 8, 4)):
            d.box("", width=8 * cell + 18, height=tall - 8, at=(wide * i, y))
            queries = d.matrix((1, 8), role="query", cell=cell, at=(wide * i, y - 24))
            held = [2 * chip, 2 * chip + 1] if G == 16 else [chip * G // 8]
            copied = G == 4 and chip % 2 == 1
            for j, g in enumerate(held):
                own = [queries.cell(0, h) for h in range(8 * j // len(held), 8 * (j + 1) // len(held))]
                x = sum(q.centre[0] for q in own) / len(own)
                name = f"copy of {g}" if copied else str(g) if len(held) > 1 else f"group {g}"
                group = d.box(name, role="cache", width=42 if len(held) > 1 else 92, dashed=copied, at=(x, y + 14))
                for query in own:
                    d.line(query.bottom, (query.centre[0] + 0.2 * (x - query.centre[0]), group.top[1]), width=1)
    return d
