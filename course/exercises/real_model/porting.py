"""From another file's layout to ours: a port that runs, prints English and is wrong."""

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Variant
from solutions import real_model as ref


def _tensors(H, G, d, d_model):
    """Four projections as `nn.Linear` stores them; every row tells where it came from."""

    def make(draw: Draw):
        shapes = {"q_proj": (H * d, d_model), "k_proj": (G * d, d_model), "v_proj": (G * d, d_model), "o_proj": (d_model, H * d)}
        return {"tensors": {name: draw.normal(*shape).round(2) for name, shape in shapes.items()}, "H": H, "G": G}

    return make


def _side_by_side(W, heads):
    """Row j of a head's first half beside row j of its second half."""
    return W.unflatten(0, (heads, 2, -1)).transpose(1, 2).flatten(0, 2)


def _apart(W, heads):
    """The other way round: every second row first. For d = 4 that is the same."""
    return W.unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2)


def _swapped(W, heads):
    return W.unflatten(0, (heads, 2, -1)).flip(1).transpose(1, 2).flatten(0, 2)


def _ported(rows=_side_by_side, *, values=lambda W, heads: W, keys=lambda H, G: G, transposed=lambda W: W.mT):
    """A port with its own order of rows, for values too, with other heads for the keys, or without the transpose."""

    def answer(tensors, H, G):
        made = {"W_Q": rows(tensors["q_proj"], H), "W_K": rows(tensors["k_proj"], keys(H, G))}
        made |= {"W_V": values(tensors["v_proj"], G), "W_O": tensors["o_proj"]}
        return {name: transposed(W) for name, W in made.items()}

    return answer


def _by_index(tensors, H, G):
    """Row by row, in Python."""

    def rows(W, heads):
        d = W.shape[0] // heads
        order = [h * d + i + half for h in range(heads) for i in range(d // 2) for half in (0, d // 2)]
        return W[order]

    return _ported(rows)(tensors, H, G)


def _after_the_transpose(tensors, H, G):
    """The columns of the transposed matrices, reordered."""

    def columns(W, heads):
        d = W.shape[1] // heads
        return W.reshape(-1, heads, 2, d // 2).transpose(-1, -2).reshape(W.shape)

    ours = {
        name: tensors[theirs].mT for name, theirs in (("W_Q", "q_proj"), ("W_K", "k_proj"), ("W_V", "v_proj"), ("W_O", "o_proj"))
    }
    return ours | {"W_Q": columns(ours["W_Q"], H), "W_K": columns(ours["W_K"], G)}


def _the_shown_code_repaired(tensors, H, G):
    def side_by_side(W, heads):
        d = W.shape[0] // heads
        rows = W.reshape(heads, 2, d // 2, -1)
        return rows.transpose(1, 2).reshape(W.shape)

    return _ported(side_by_side)(tensors, H, G)


FROM_HUGGING_FACE = Exercise(
    "from_hugging_face",
    title="Find the bug: the rows of port B",
    points=2,
    kind="bug",
    difficulty=3,
    minutes=11,
    reference=ref.from_hugging_face,
    recipe=Made(_ported),
    tensors=True,
    cases=(
        Case("one head of six features", _tensors(1, 1, 6, 2)),
        Case("six heads, three groups", _tensors(6, 3, 8, 5)),
        Case("four heads, two groups", _tensors(4, 2, 10, 7)),
    ),
    hints=(
        "Don't run the model. Run the port on one head whose rows are numbered, `torch.arange(6.0)[:, None]`, and look at the order in which "
        "they come out. Which order do you want?",
        "Rows $i$ and $i + d/2$ rotate together, so with six rows 0 and 3, 1 and 4, 2 and 5 have to become neighbours. The draft does the "
        "opposite, and with $d = 4$ the two orders are the same.",
        "A `reshape` cuts rows in their present order, and $d$ rows are first the whole first half, then the whole second half. Which axis "
        "comes first when you cut a head's rows, the one of length 2 or the one of length $d/2$?",
    ),
    misconceptions=(
        Misconception(
            "as_shown",
            "reordered the rows in the wrong direction, as the draft does",
            "Number the rows of a head with $d = 6$. The order you need is 0, 3, 1, 4, 2, 5.",
            Instead(rows=_apart),
        ),
        Misconception(
            "not_reordered",
            "left the rows of queries and keys in the half-split order",
            "There feature $i$ rotates with feature $i + d/2$, and here neighbours rotate together. Reorder the rows of each head.",
            Instead(rows=lambda W, heads: W),
        ),
        Misconception(
            "across_heads",
            "reordered all rows at once, so features of different heads became partners",
            "Each head has its own pairs, so cut the rows into heads first.",
            Instead(rows=lambda W, heads: _side_by_side(W, 1)),
        ),
        Misconception(
            "keys_by_query_heads",
            "cut the keys into $H$ heads, although there are only $G$ key-value heads",
            "`k_proj` has $G d$ rows.",
            lambda tensors, H, G: _ported(keys=lambda H, G: H if H == G or (G * 8) % (2 * H) == 0 else G)(tensors, H, G),
        ),
        Misconception(
            "values_too",
            "reordered the values as well, although `o_proj` expects them in their old order",
            "Only queries and keys are rotated. Values stay as they are.",
            Instead(values=_side_by_side),
        ),
        Misconception(
            "halves_swapped",
            "put the feature of the second half first, so each pair rotates backwards",
            "The feature of the first half comes first, then its partner, as in 0, 3, 1, 4, 2, 5.",
            Instead(rows=_swapped),
        ),
        Misconception(
            "reordered_after_the_transpose",
            "reordered the rows of the transposed matrix, which are its inputs, while heads are cut from its outputs",
            "Reorder the rows as `nn.Linear` stores them, (out, in), and transpose last.",
            lambda tensors, H, G: {
                "W_Q": _side_by_side(tensors["q_proj"].mT, H),
                "W_K": _side_by_side(tensors["k_proj"].mT, G),
                "W_V": tensors["v_proj"].mT,
                "W_O": tensors["o_proj"].mT,
            },
        ),
        Misconception(
            "not_transposed",
            "left the matrices as `nn.Linear` stores them, (out, in)",
            "Our weights are used as `X @ W`, so return the transposes.",
            Instead(transposed=lambda W: W),
        ),
    ),
    variants=(
        Variant("the_shown_code_repaired", _the_shown_code_repaired),
        Variant("by_index", _by_index),
        Variant("after_the_transpose", _after_the_transpose),
    ),
)
