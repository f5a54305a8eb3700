"""What heads cost, in parameters."""

from autograder import Case, Draw, Exercise, Misconception, Variant
from solutions import multi_head as ref


def _sizes(draw: Draw, bias: bool):
    d_model, H, d_k, d_v = draw.sizes(4, low=3, high=17)
    return {"d_model": d_model, "H": H, "d_k": d_k, "d_v": d_v, "bias": bias}


def _count(matrices, biases):
    return lambda d_model, H, d_k, d_v, bias: matrices(d_model, H, d_k, d_v) + (biases(d_model, H, d_k, d_v) if bias else 0)


def _matrices(d, H, k, v):
    return 2 * d * H * k + 2 * d * H * v


def _biases(d, H, k, v):
    return 2 * H * k + H * v + d


def _from_a_module(d_model, H, d_k, d_v, bias):
    return sum(p.numel() for p in ref.MultiHead(d_model, H, d_k, d_v, bias).parameters())


PARAM_COUNT = Exercise(
    "param_count",
    title="How many parameters?",
    points=1,
    difficulty=1,
    minutes=5,
    reference=ref.param_count,
    tensors=True,
    cases=(Case("without biases", lambda draw: _sizes(draw, False)), Case("with biases", lambda draw: _sizes(draw, True))),
    hints=(
        "Write down the shape of each of the four layers. A matrix has (in) times (out) weights. A bias has one number per output.",
        "`WQ` and `WK` are $d_{model} \\times H d_k$, `WV` is $d_{model} \\times H d_v$, `WO` is $H d_v \\times d_{model}$. "
        "How many outputs has each?",
        "Two matrices are as wide as all keys together, two as all values: add the four products. A bias is as long as the output of "
        "its layer, and `WO` has $d_{model}$ outputs.",
    ),
    misconceptions=(
        Misconception(
            "d_model_is_H_times_d",
            "counted $4 d_{model}^2$, as if $H d_k = H d_v = d_{model}$",
            "That is usual, not required: use the sizes that are given.",
            _count(lambda d, H, k, v: 4 * d * d, lambda d, H, k, v: 4 * d),
        ),
        Misconception(
            "output_layer_forgotten",
            "left out `WO`",
            "The fourth layer maps $H d_v$ features back to $d_{model}$, with a bias of its own.",
            _count(lambda d, H, k, v: d * H * (2 * k + v), lambda d, H, k, v: H * (2 * k + v)),
        ),
        Misconception(
            "one_head_only",
            "counted one head",
            "Each of the $H$ heads has projections of its own, and rows of its own in `WO`.",
            _count(lambda d, H, k, v: 2 * d * (k + v), lambda d, H, k, v: 2 * k + v + d),
        ),
        Misconception(
            "h_output_biases",
            "counted the bias of `WO` once per head",
            "The heads are joined before `WO`, so there is one bias, of $d_{model}$ numbers.",
            _count(_matrices, lambda d, H, k, v: 2 * H * k + H * v + H * d),
        ),
        Misconception(
            "biases_forgotten",
            "counted the matrices only",
            "With `bias=True` each layer has one more number per output.",
            _count(_matrices, lambda d, H, k, v: 0),
        ),
        Misconception(
            "values_as_wide_as_keys",
            "took the values to be as wide as the keys, $d_v = d_k$",
            "`WV` gives each head $d_v$ features, and `WO` takes $H d_v$.",
            _count(lambda d, H, k, v: 4 * d * H * k, lambda d, H, k, v: 3 * H * k + d),
        ),
    ),
    variants=(
        Variant("from_a_module", _from_a_module),
        Variant(
            "layer_by_layer",
            lambda d_model, H, d_k, d_v, bias: (
                2 * (d_model + bias) * H * d_k + (d_model + bias) * H * d_v + (H * d_v + bias) * d_model
            ),
        ),
    ),
)

PREDICT_LOOP = Exercise(
    "predict_loop",
    title="Predict: a loop over the heads, or all at once?",
    points=0.5,
    minutes=1,
    choices={
        "a": "hardly any difference: the multiplications are the same",
        "b": "clearly faster on the short text, and on the long one the advantage is gone",
        "c": "about 16 times faster, whatever the length",
    },
    holds="b",
    reveal="**b.** The arithmetic is the same. What the loop pays is the cost of *starting* each operation, some microseconds, for every "
    "head: on a short text that is most of the time. With 1,024 tokens the products are so large that starting them no longer "
    "matters. The loop may even win there: the scores of one head are 4 MiB, which a processor keeps close by, those of 16 heads are "
    "64 MiB. (A GPU is another matter: small products leave most of it idle.)",
)

PREDICT_PARAMS = Exercise(
    "predict_params",
    title="Predict: what do eight heads cost?",
    points=0.5,
    minutes=1,
    choices={
        "a": "8 times as many parameters, 8 times the work",
        "b": "as many parameters, and nearly the same work",
        "c": "an eighth of the parameters, because each head is an eighth as wide",
        "d": "as many parameters, and 8 times the work",
    },
    holds="b",
    reveal="**b.** Eight heads of width 64 have the same four 512 × 512 matrices as one head of width 512. The products with them "
    "cost the same, and so do the scores: n² dot products of length 512 against 8 n² of length 64. Only the softmax works more: "
    "8 n² weights instead of n².",
)
