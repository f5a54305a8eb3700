"""A factor on the softmax scale that a port forgot."""

import math

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Variant
from solutions import real_model as ref


def _config(*, yarn=True, **settings):
    """A layer's settings; `settings` replace those of its YaRN entry."""

    def make(draw: Draw):
        d, d_rope = (int(size) for size in 8 * (2 + draw.rng.permutation(14)[:2]))
        entry = {
            "type": "yarn",
            "factor": round(float(draw.uniform(low=3.0, high=50.0)), 1),
            "original_max_position_embeddings": 4096,
            "mscale": round(float(draw.uniform(low=0.3, high=0.6)), 2),
            "mscale_all_dim": round(float(draw.uniform(low=0.7, high=1.4)), 2),
        }
        config = {"qk_nope_head_dim": d, "qk_rope_head_dim": d_rope, "v_head_dim": d + 8}
        return {"config": config | {"rope_scaling": entry | settings if yarn else None}}

    return make


def _scale(
    *,
    width=lambda c: c["qk_nope_head_dim"] + c["qk_rope_head_dim"],
    root=math.sqrt,
    which="mscale_all_dim",
    logarithm=math.log,
    grown=lambda s, log: 0.1 * s * log + 1,
    power=2,
    small=lambda factor: factor <= 1,
    none=1.0,
):
    """One over the root of the width, times a power of what YaRN multiplies queries and keys by."""

    def answer(config):
        scale = 1 / root(width(config))
        yarn = config.get("rope_scaling")
        if not yarn:
            return scale * none
        m = 1.0 if small(yarn["factor"]) else grown(yarn[which], logarithm(yarn["factor"]))
        return scale * m**power

    return answer


def _forgets(config):
    return (config["qk_nope_head_dim"] + config["qk_rope_head_dim"]) ** -0.5


def _step_by_step(config):
    d = config["qk_nope_head_dim"] + config["qk_rope_head_dim"]
    m = 1.0
    if config["rope_scaling"] is not None and config["rope_scaling"]["factor"] > 1:
        m += config["rope_scaling"]["mscale_all_dim"] * math.log(config["rope_scaling"]["factor"]) / 10
    return m * m / math.sqrt(d)


SOFTMAX_SCALE = Exercise(
    "softmax_scale",
    title="Find the factor: scores of an MLA port",
    points=2,
    kind="bug",
    difficulty=2,
    minutes=8,
    reference=ref.softmax_scale,
    recipe=Made(_scale),
    cases=(
        Case("settings as in DeepSeek-V3", _config(factor=40.0, mscale=1.0, mscale_all_dim=1.0)),
        Case("other settings", _config()),
        Case("no YaRN", _config(yarn=False)),
        Case("a context of the trained length", _config(factor=1.0), edge=0.2),
        Case("a factor below one", _config(factor=0.5), edge=0.2),
    ),
    hints=(
        "Compute $m$ for the settings that the cell printed, and compare it with the ratio of the scores.",
        "$m$ is 1.3689, and the ratio is 1.8739. Which power of $m$ is that, and why would a product of a query and a key contain $m$ so often?",
        "Start with one over the root of the width of a whole query. If there is a `rope_scaling` and its `factor` exceeds 1, one more product is "
        "left. How often does $m$ occur in a score?",
    ),
    misconceptions=(
        Misconception(
            "factor_forgotten",
            "left out YaRN's factor, as the port does",
            "Multiply the scale by $m$ for the query and by $m$ for the key.",
            _forgets,
        ),
        Misconception(
            "factor_once",
            "multiplied by $m$ once, although both the query and the key are multiplied by it",
            "A score contains the product of the two, so its factor is $m^2$.",
            Instead(power=1),
        ),
        Misconception(
            "root_of_the_factor",
            "multiplied by the root of $m$",
            "Queries and keys are each multiplied by $m$, so scores are multiplied by $m^2$.",
            Instead(power=0.5),
        ),
        Misconception(
            "divided_by_the_factor",
            "divided by the factor instead of multiplying by it",
            "The published scores are larger than the port's. Multiply by $m^2$.",
            Instead(power=-2),
        ),
        Misconception(
            "other_mscale",
            "used `mscale` instead of `mscale_all_dim`",
            "`mscale` concerns the rotated features alone. For whole queries and keys the setting is `mscale_all_dim`.",
            Instead(which="mscale"),
        ),
        Misconception(
            "without_the_rotated_features",
            "took the width of the features without rotation alone",
            "A query has `qk_nope_head_dim + qk_rope_head_dim` features, and the score is a sum over all of them.",
            Instead(width=lambda c: c["qk_nope_head_dim"]),
        ),
        Misconception(
            "width_of_the_values",
            "took the width of the values",
            "A score is a sum over the features of a query, not of a value.",
            Instead(width=lambda c: c["v_head_dim"]),
        ),
        Misconception(
            "divided_by_the_width",
            "divided by the width instead of its root",
            "The scale is one over the **root** of the width, times YaRN's factor.",
            Instead(root=lambda d: d),
        ),
        Misconception(
            "another_logarithm",
            "took the logarithm to base 2 or 10",
            "YaRN's formula has the natural logarithm, `math.log`.",
            Instead(logarithm=math.log2),
            also=(Instead(logarithm=math.log10),),
        ),
        Misconception(
            "tenth_forgotten",
            "left out the 0.1",
            "The formula is $m = 0.1\\, s \\ln(\\text{factor}) + 1$.",
            Instead(grown=lambda s, log: s * log + 1),
        ),
        Misconception(
            "one_forgotten",
            "left out the 1",
            "The formula is $m = 0.1\\, s \\ln(\\text{factor}) + 1$, which is 1 where nothing is stretched.",
            Instead(grown=lambda s, log: 0.1 * s * log),
        ),
        Misconception(
            "small_factors_too",
            "applied the formula to a factor below 1 as well",
            "Where `factor` is at most 1, nothing is stretched, and $m = 1$.",
            Instead(small=lambda factor: False),
        ),
    ),
    variants=(Variant("step_by_step", _step_by_step),),
)
