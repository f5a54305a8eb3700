"""Workshop 10d: the latent cache on several GPUs, and in a sparse prompt."""

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Prediction, Tolerance, Variant
from course.exercises.latent.costs import CACHE_PER_GPU
from solutions import many_gpus as ref

# ---------------------------------------------------------------------------------------------- what is exchanged


def _step(way: str):
    def make(draw: Draw):
        return {"way": way, "H": draw.integer(5, 9), "n": draw.integer(301, 499), "d_c": draw.integer(31, 59)}

    return make


def _small(way: str):
    return lambda draw: {"way": way, "H": 2, "n": 100, "d_c": 5}


def _sent(
    *,
    features=lambda H, n, d_c: H * n,
    tokens=lambda H, n, d_c: H * (d_c + 1),
    conversations=lambda H, n, d_c: 0,
):
    """The count with one of the three ways replaced by a mistake."""

    def answer(way, H, n, d_c):
        return {"features": features, "tokens": tokens, "conversations": conversations}[way](H, n, d_c)

    return answer


SENT_PER_STEP = Exercise(
    "sent_per_step",
    title="Estimate: what must be exchanged?",
    kind="estimate",
    points=1.5,
    difficulty=3,
    minutes=7,
    reference=ref.sent_per_step,
    recipe=Made(_sent),
    cases=(
        Case("a small case, by features", _small("features")),
        Case("a small case, by tokens", _small("tokens")),
        Case("features", _step("features")),
        Case("tokens", _step("tokens")),
        Case("conversations", _step("conversations")),
    ),
    hints=(
        "Follow one head through scores, softmax and average. At which point does it need something that another GPU has computed?",
        "With a part of the features, a GPU has a part of the sum in every score. With a part of the tokens, it has whole scores and can "
        "already average its own latents. What is missing for averages of different GPUs to be added with the right weights?",
        "The softmax is not linear, so partial scores of all `n` tokens must be added before it. Averages, in contrast, can be merged as "
        "in workshop 08b, from one number beside each of them.",
    ),
    misconceptions=(
        Misconception(
            "softmax_before_the_sum",
            "let each GPU take the softmax of its partial scores and sent averages",
            "The softmax of a sum is not made from softmaxes of its parts. Partial scores have to be added first.",
            Instead(features=lambda H, n, d_c: H * (d_c + 1)),
        ),
        Misconception(
            "scores_of_all_tokens_exchanged",
            "exchanged all scores, although a GPU with whole latents can average its own tokens first",
            "Send one average and one log-sum-exp per head, which does not depend on `n`.",
            Instead(tokens=lambda H, n, d_c: H * n),
        ),
        Misconception(
            "weights_of_averages_forgotten",
            "sent averages without the number that says how much weight each of them carries",
            "Two averages can be merged only with the log-sum-exp of their scores, one number per head.",
            Instead(tokens=lambda H, n, d_c: H * d_c),
        ),
        Misconception(
            "maximum_and_sum",
            "sent a maximum and a sum of exponentials beside each average",
            "Their logarithm, the log-sum-exp, carries both in one number.",
            Instead(tokens=lambda H, n, d_c: H * (d_c + 2)),
        ),
        Misconception(
            "latents_sent",
            "sent the latents themselves to the other GPUs",
            "The `n` latents stay where they are. What travels belongs to the one new token.",
            Instead(tokens=lambda H, n, d_c: n * d_c, features=lambda H, n, d_c: n * d_c),
        ),
        Misconception(
            "one_for_all_heads",
            "counted one head",
            "Each of the `H` heads has scores and an average of its own.",
            Instead(features=lambda H, n, d_c: n, tokens=lambda H, n, d_c: d_c + 1),
        ),
        Misconception(
            "conversations_exchanged",
            "let GPUs with whole conversations exchange averages",
            "Whoever keeps all tokens of a conversation with whole latents needs nothing from the others.",
            Instead(conversations=lambda H, n, d_c: H * d_c),
        ),
    ),
    variants=(
        Variant("one_formula", lambda way, H, n, d_c: (way != "conversations") * H * (n if way == "features" else d_c + 1)),
    ),
)


# ---------------------------------------------------------------------------------------------- what fits


def _gained(*, memory=141.0, parameters=671.0, attention=11.4, rest=None, gpus=8, copies=8):
    def answer():
        others = parameters - attention if rest is None else rest
        return copies * (memory - others / gpus - attention) / (memory - parameters / gpus)

    return answer


TOKENS_GAINED = Exercise(
    "tokens_gained",
    title="Estimate: what fits on eight GPUs?",
    kind="estimate",
    points=1.5,
    difficulty=2,
    minutes=8,
    reference=ref.tokens_gained,
    recipe=Made(_gained),
    tolerance=Tolerance(rtol=0.01, atol=0.0),
    cases=(Case("DeepSeek-V3 on eight GPUs", lambda draw: {}),),
    hints=(
        "Bytes per token are the same in both cases, so compare only the room. What is left on one GPU beside its parameters, in each case?",
        "With heads split, every GPU keeps 671/8 GB of parameters, and all GPUs cache the same tokens. With whole conversations a GPU keeps "
        "an eighth of the other parameters and all of those of attention, and its tokens are its own.",
        "Divide eight times the room of a GPU with whole conversations by the room of a single GPU with split heads. The result is "
        "somewhat less than 8.",
    ),
    misconceptions=(
        Misconception(
            "attention_still_split",
            "left the parameters of attention split over the GPUs",
            "A GPU that serves whole conversations runs all heads, so it needs all 11.4 GB of them.",
            lambda: 8.0,
        ),
        Misconception(
            "one_gpu_only",
            "compared one GPU with one GPU",
            "With whole conversations the eight caches hold different tokens, so their rooms add up.",
            Instead(copies=1),
        ),
        Misconception(
            "attention_counted_twice",
            "counted the parameters of attention twice on a GPU with whole conversations",
            "Take them out of the 671 billion before you divide by eight.",
            Instead(rest=671.0),
        ),
        Misconception(
            "upside_down",
            "divided the other way round",
            "The question is how many times as many tokens fit with whole conversations.",
            lambda: 1 / _gained()(),
        ),
        Misconception(
            "everything_copied",
            "gave every GPU all parameters of the model",
            "All 671 GB don't fit on one GPU, so the room comes out negative. Only attention is copied, and the other parameters stay split.",
            lambda: 8 * (141.0 - 671.0) / (141.0 - 671.0 / 8),
        ),
    ),
    variants=(Variant("two_decimals", lambda: 6.6),),
)


# ---------------------------------------------------------------------------------------------- a sparse prompt


def _sparse(
    *, made_width=128 * 320, made_flop=2 * 128 * 320, row=576, flop=2 * 128 * 1088, bound=max, peak=790e12, bandwidth=4.3e12
):
    def answer():
        made = bound(2 * made_width / bandwidth, made_flop / peak)
        return made / bound(2 * row / bandwidth, flop / peak)

    return answer


SPARSE_GAIN = Exercise(
    "sparse_gain",
    title="Estimate: absorbing in a sparse prompt",
    kind="estimate",
    points=1.5,
    difficulty=3,
    minutes=8,
    reference=ref.sparse_gain,
    recipe=Made(_sparse),
    tolerance=Tolerance(rtol=0.01, atol=0.0),
    cases=(Case("2,048 tokens of its own", lambda draw: {}),),
    hints=(
        "Four times are needed, for bytes and for arithmetic in each of the two forms. The longer one of each pair is the bound.",
        "Per token, ready-made keys and values of all heads are 128 · (192 + 128) numbers, and each takes one multiplication and one "
        "addition. The absorbed form reads 576 numbers, and each of its heads needs 2 · (576 + 512) FLOP.",
        "The first form waits for bytes. Check for the second one which of its times is longer, since it may wait for something else.",
    ),
    misconceptions=(
        Misconception(
            "bytes_alone",
            "compared bytes alone",
            "The absorbed form reads so little that its arithmetic takes longer than its bytes.",
            Instead(bound=lambda read, work: read),
        ),
        Misconception(
            "arithmetic_alone",
            "compared the arithmetic alone",
            "Ready-made keys and values take far longer to arrive than to be multiplied.",
            Instead(bound=lambda read, work: work),
        ),
        Misconception(
            "times_added",
            "added the two times of each form",
            "A chip reads and computes at the same time, so the bound is the longer of the two.",
            Instead(bound=lambda read, work: read + work),
        ),
        Misconception(
            "rotated_key_averaged",
            "let the absorbed average run over the rotated key as well",
            "The weights average the 512 numbers of the latent. The 64 rotated ones take part in the scores only.",
            Instead(flop=2 * 128 * 1152),
        ),
        Misconception(
            "latent_read_twice",
            "had the latents read twice, as keys and as values",
            "A row is read once and used for both.",
            Instead(row=1088),
        ),
        Misconception(
            "rotated_key_shared",
            "read the rotated part of ready-made keys once for all heads",
            "Here the keys of every head are stored with their rotated part, 192 numbers each.",
            Instead(made_width=128 * 256 + 64),
        ),
        Misconception(
            "upside_down",
            "divided the other way round",
            "The question is how many times faster the absorbed form can be.",
            lambda: 1 / _sparse()(),
        ),
    ),
    variants=(Variant("a_whole_number", lambda: 54.0),),
)

PREDICT_SAVING = Prediction(
    "predict_saving",
    title="Predict: a saving",
    points=0.5,
    difficulty=2,
    minutes=2,
    choices={
        "a": "less than 93.3 %, since quantisation is a part of that figure",
        "b": "93.3 %, as the slide says",
        "c": "more than 93.3 %",
    },
    holds="c",
    reveal="**c.** Two faults of the slide pull in opposite directions. You will find both, and the better figure, in exercise 10d.5.",
)

EXERCISES = (CACHE_PER_GPU, SENT_PER_STEP, TOKENS_GAINED, SPARSE_GAIN, PREDICT_SAVING)
