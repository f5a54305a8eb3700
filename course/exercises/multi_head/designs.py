"""Two heads designed by hand, and judged by what they do."""

import torch

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Tolerance, Variant
from solutions import multi_head as ref


def _nothing(draw: Draw) -> dict[str, object]:
    return {}


# ---------------------------------------------------------------------------------------------- who and what


def _who_and_what(*, loud=30.0, asks=(0, 0), finds=((1,), (2,)), into=((6, 1.0), (9, 1.0)), values=(slice(3, 6), slice(3, 6))):
    """Two heads: which flag asks, which flags are found, where and with which factor each head writes."""

    def answer():
        W_Q, W_K = torch.zeros(12, 2, dtype=torch.float64), torch.zeros(12, 2, dtype=torch.float64)
        W_V, W_O = torch.zeros(12, 6, dtype=torch.float64), torch.zeros(6, 12, dtype=torch.float64)
        for h in range(2):
            W_Q[asks[h], h] = loud
            for flag in finds[h]:
                W_K[flag, h] = 1.0
            W_V[values[h], 3 * h : 3 * h + 3] = torch.eye(3, dtype=torch.float64)
            place, factor = into[h]
            W_O[3 * h : 3 * h + 3, place : place + 3] = factor * torch.eye(3, dtype=torch.float64)
        return W_Q, W_K, W_V, W_O

    return answer


def _dealt_in_turn():
    """Values and places as they should be, but their features are dealt to the heads one by one."""
    W_Q, W_K, W_V, W_O = _who_and_what()()
    order = [0, 2, 4, 1, 3, 5]  # where feature i of head h stands: 2 i + h
    values, places = torch.zeros_like(W_V), torch.zeros_like(W_O)
    values[:, order], places[order] = W_V, W_O
    return W_Q, W_K, values, places


def _wide_heads():
    """Wider heads than needed, loud keys in place of loud queries, the rest random."""
    draw = torch.Generator().manual_seed(0)
    W_Q, W_K = torch.zeros(12, 8, dtype=torch.float64), torch.zeros(12, 8, dtype=torch.float64)
    W_V, W_O = torch.zeros(12, 12, dtype=torch.float64), torch.zeros(12, 12, dtype=torch.float64)
    W_Q[0, 0] = W_Q[0, 5] = 2.0
    W_K[1, 0] = W_K[2, 5] = 40.0
    W_K[1, 2] = W_K[2, 7] = 3.0  # in features in which no query asks
    turn = torch.linalg.qr(torch.randn(3, 3, generator=draw, dtype=torch.float64))[0]
    W_V[3:6, 0:3] = W_V[3:6, 6:9] = turn
    W_O[0:3, 6:9] = W_O[6:9, 9:12] = turn.T
    return W_Q, W_K, W_V, W_O


WHO_AND_WHAT = Exercise(
    "who_and_what",
    title="Keep two things apart",
    points=3,
    reference=ref.who_and_what,
    recipe=Made(_who_and_what),
    tensors=True,
    tolerance=Tolerance(rtol=0.0, atol=0.005),
    kind="design",
    behaviour="attention_course.designs:who_and_what",
    difficulty=3,
    minutes=12,
    cases=(Case("five sentences", _nothing),),
    hints=(
        "Design one head for *who* and one for *what*. For each of them say which word asks, which word is found, what is passed on, and "
        "where it is written.",
        "A score is a product, so let the flag *verb* make the query and the flag *acts* make the key of head 0. The values are "
        "features 3 to 5 in both heads. Each head has its own rows of $W_O$, which decide where it writes.",
        "With $d_k = 1$, `W_Q` and `W_K` have two columns, one per head, with a single entry each that is not 0. With $d_v = 3$, `W_V` "
        "holds the 3 × 3 identity twice, and so does `W_O`. Make the queries as loud as in the worked design.",
    ),
    misconceptions=(
        Misconception(
            "one_average",
            "let both heads find both words, so each place receives the average of the two",
            "Head 0 must find the word that acts and not the other, so give its key only the flag *acts*.",
            Instead(finds=((1, 2), (1, 2))),
        ),
        Misconception(
            "exchanged",
            "exchanged the two answers, so the word that is acted on is in *who*",
            "The head that finds flag 1 (acts) must write into features 6 to 8.",
            Instead(finds=((2,), (1,))),
        ),
        Misconception(
            "flags_one_too_low",
            "found the flags 0 and 1, which are one too low. The place *who* receives the verb, and *what* the word that acts",
            "Flag 0 means *verb*, flag 1 *acts* and flag 2 *acted on*, so head 0 finds flag 1 and head 1 finds flag 2.",
            Instead(finds=((0,), (1,))),
        ),
        Misconception(
            "dealt_in_turn",
            "gave the columns of `W_V` and the rows of `W_O` to the heads in turn, but each head owns a block of neighbours",
            "Head 0 has the first $d_v$ columns of `W_V` and rows of `W_O`, and head 1 has the next $d_v$.",
            _dealt_in_turn,
        ),
        Misconception(
            "what_one_place_too_low",
            "let the second head write one feature too low, although *what* begins at feature 9",
            "The place *who* is features 6 to 8 and *what* is 9 to 11, so use `W_O[3:, 9:12]`.",
            Instead(into=((6, 1.0), (8, 1.0))),
        ),
        Misconception(
            "exchanged_and_too_soft",
            "exchanged the two answers, and your scores are too small, so other words get a share of the weight",
            "The head that finds flag 1 (acts) must write into features 6 to 8. Multiply the queries or the keys by 30, for instance.",
            Instead(finds=((2,), (1,)), loud=3.0),
        ),
        Misconception(
            "both_into_one_place",
            "let both heads write into the same place, where their answers are added",
            "Each head has its own rows of `W_O`. The first $d_v$ rows lead to features 6 to 8 and the next $d_v$ to 9 to 11.",
            Instead(into=((6, 1.0), (6, 1.0))),
        ),
        Misconception(
            "into_its_meaning",
            "wrote into the verb's own meaning, features 3 to 5",
            "The free places begin at feature 6. *Who* begins at 6 and *what* at 9.",
            Instead(into=((3, 1.0), (6, 1.0))),
            also=(Instead(into=((3, 1.0), (9, 1.0))),),
        ),
        Misconception(
            "too_soft",
            "made the scores too small. Your heads attend to the right words, but other words still get a share of the weight",
            "Multiply the queries or the keys by a large number, 30 for instance. Each feature must be right to within 0.005.",
            Instead(loud=1.0),
            also=tuple(Instead(loud=loud) for loud in (2.0, 3.0)),
        ),
        Misconception(
            "beside_the_meaning",
            "passed on three features that begin one place beside the meaning",
            "Row $f$ of `W_V` says what becomes of feature $f$. The meaning is in features 3 to 5, which is the slice `3:6`.",
            Instead(values=(slice(2, 5), slice(2, 5))),
            also=(
                Instead(values=(slice(4, 7), slice(4, 7))),
                Instead(values=(slice(2, 5), slice(2, 5)), loud=5.0),  # and with scores that are too small, yet not by much
            ),
        ),
        Misconception(
            "flags_for_meaning",
            "passed on the three *flags* of the word that was found, and not its meaning",
            "Row $f$ of `W_V` says what becomes of feature $f$. The meaning is in features 3 to 5.",
            Instead(values=(slice(0, 3), slice(0, 3))),
            also=(Instead(values=(slice(0, 3), slice(3, 6))), Instead(values=(slice(3, 6), slice(0, 3)))),
        ),
        Misconception(
            "roles_of_query_and_key_exchanged",
            "exchanged query and key, so the other words ask and the verb has no question at all",
            "The verb asks, so flag 0 belongs into `W_Q`. The flags of the words to be found belong into `W_K`.",
            lambda: (lambda q, k, v, o: (k * 30, q / 30, v, o))(*_who_and_what()()),
        ),
        Misconception(
            "one_head_only",
            "used only the first head, so the place *what* stays empty",
            "The second head has its own columns in `W_Q`, `W_K` and `W_V`, and its own rows in `W_O`. Which of the four is still empty?",
            Instead(into=((6, 1.0), (9, 0.0))),
        ),
    ),
    variants=(
        Variant("wide_heads", _wide_heads),
        Variant("heads_in_the_other_order", _who_and_what(finds=((2,), (1,)), into=((9, 1.0), (6, 1.0)))),
    ),
)
