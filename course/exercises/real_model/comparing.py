"""What is wrong in a port of the whole model?"""

from autograder import Case, Exercise, Misconception, Variant
from solutions import real_model as ref


def _said(layer=25, matrix="W_K", done="not reordered"):
    return lambda: (layer, matrix, done)


WRONG_IN_PORT_C = Exercise(
    "wrong_in_port_c",
    title="Use: what is wrong in port C?",
    points=2,
    kind="use",
    difficulty=2,
    minutes=8,
    reference=ref.wrong_in_port_c,
    outputs=(0.4, 0.3, 0.3),
    cases=(Case("port C", lambda draw: {}),),
    hints=(
        "Go through the layers in order and print the largest difference of each. Later layers only pass on what an earlier one got wrong.",
        "In the first wrong layer, compare each of the four matrices of `port_c` with that of `weights`, for example by `torch.equal`.",
        "Make the matrix that each kind of mistake would give. For one of them, take `reference.to_hugging_face(layer)`, whose matrices are "
        "stored as (out, in), and compare its transpose with the matrix in `port_c`.",
    ),
    misconceptions=(
        Misconception(
            "counted_from_one",
            "counted the layers from 1",
            "`enumerate` counts from 0, as the course does.",
            _said(layer=26),
        ),
        Misconception(
            "last_layer",
            "returned the last layer that differs, although later layers only pass the mistake on",
            "Look for the first layer whose outputs differ.",
            _said(layer=29),
        ),
        Misconception(
            "queries",
            "took the queries' matrix for the wrong one",
            'Compare all four matrices of the layer. `port_c["layers"][25]["W_Q"]` equals the right one.',
            _said(matrix="W_Q"),
        ),
        Misconception(
            "transposed",
            "said that the matrix is transposed",
            "Then its shape would be (192, 576). Compare the shapes.",
            _said(done="transposed"),
        ),
        Misconception(
            "reordered_twice",
            "said that the matrix was reordered twice",
            "Compare the matrix with Hugging Face's own, which was never reordered.",
            _said(done="reordered twice"),
        ),
        Misconception(
            "heads_exchanged",
            "said that the heads are exchanged",
            "Compare the matrix head by head. The three heads are in their places, but the features within each of them are not.",
            _said(done="heads exchanged"),
        ),
    ),
    variants=(Variant("unpacked", lambda: (*ref.wrong_in_port_c(),)),),
)
