# ruff: noqa: E501 - answers as students write them, one to a line
"""Answers to chapters 01 and 03 as students write them, each with the points that a fair person gives.

An `Answer` is one submission: a perfect notebook in which `texts` stand in for some answers. What is not in `fair` deserves
full marks: answers that build on a wrong one are not marked down again. `flag` says that a remark on a forbidden name is right.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

CORE, TWO, BACK, HEAD, LOOKUP = (
    "03_scaled_dot_product",
    "03b_two_matrices",
    "03c_backward_pass",
    "03d_reading_a_head",
    "01_soft_lookup",
)
Edit = Callable[[Any], None]


@dataclass(frozen=True)
class Answer:
    """One submission; `edit` changes the notebook beyond its answers."""

    lesson: str
    name: str
    texts: dict[str, str] = field(default_factory=dict)
    fair: dict[str, float] = field(default_factory=dict)
    edit: Edit | None = None
    flag: bool = False


ANSWERS: list[Answer] = []


def _add(lesson: str, exercise: str, points: float | None, **texts: str) -> None:
    """Enter answers to one exercise that all deserve the same; None is full marks."""
    for name, text in texts.items():
        fair = {} if points is None else {exercise: points}
        ANSWERS.append(Answer(lesson, f"{exercise}.{name}", {exercise: text}, fair))


# ---------------------------------------------------------------------------------------------- 03, scores (1 point)

_SCORES = "def scaled_scores(Q, K):\n    return {}\n"
_add(
    CORE, "scaled_scores", None,
    mT=_SCORES.format("Q @ K.mT / Q.shape[-1] ** 0.5"),
    einsum=_SCORES.format('torch.einsum("...nk,...mk->...nm", Q, K) / math.sqrt(K.shape[-1])'),
    queries_first=_SCORES.format("(Q / math.sqrt(Q.size(-1))) @ K.transpose(-1, -2)"),
    renamed_parameters="def scaled_scores(q, k):\n    return q @ k.mT / q.shape[-1] ** 0.5\n",
    a_lambda="scaled_scores = lambda Q, K: Q @ K.mT / Q.shape[-1] ** 0.5\n",
    prints_and_plots="import matplotlib.pyplot as plt\n\ndef scaled_scores(Q, K):\n    S = Q @ K.mT / Q.shape[-1] ** 0.5\n    print(S.shape)\n    plt.imshow(S.detach().reshape(-1, S.shape[-1]))\n    plt.show()\n    return S\n",
    unfinished_below=_SCORES.format("Q @ K.mT / Q.shape[-1] ** 0.5") + "\nprint(scaled_scores(torch.ones(2, 3),\n",
    misspelt="def scaled_score(Q, K):\n    return Q @ K.mT / Q.shape[-1] ** 0.5\n",
)  # fmt: skip
_add(
    CORE, "scaled_scores", 0.5,
    all_axes=_SCORES.format("Q @ K.T / math.sqrt(Q.shape[-1])"),
    two_axes=_SCORES.format("Q @ K.t() / math.sqrt(Q.shape[-1])"),
)  # fmt: skip
_add(
    CORE, "scaled_scores", 0,
    unscaled=_SCORES.format("Q @ K.mT"),
    by_d=_SCORES.format("Q @ K.mT / Q.shape[-1]"),
    half=_SCORES.format("Q @ K.mT / Q.shape[-1] ** 1/2"),
    turned=_SCORES.format("K @ Q.mT / math.sqrt(Q.shape[-1])"),
    blank=_SCORES.format("None"),
    broken="def scaled_scores(Q, K:\n    return Q @ K.mT\n",
    loops=_SCORES.format("[1 for _ in iter(int, 1)]"),
    undefined=_SCORES.format("Q @ K.mT / math.sqrt(d_k)"),
)  # fmt: skip

# ---------------------------------------------------------------------------------------------- 03, sdpa (2 points)

_A = "    A = torch.softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), dim=-1)\n"
_SDPA = "def sdpa(Q, K, V):\n"
_add(
    CORE, "sdpa", None,
    plain=_SDPA + _A + "    return A @ V, A\n",
    as_a_list=_SDPA + _A + "    return [A @ V, A]\n",
    by_F="import torch.nn.functional as F\n\n" + _SDPA + "    A = F.softmax(scaled_scores(Q, K), dim=-1)\n    return A @ V, A\n",
    own_test_below=_SDPA + _A + "    return A @ V, A\n\nO, A = sdpa(torch.randn(2, 3), torch.randn(4, 3), torch.randn(4, 3))\nprint(O)\n",
    failing_test_below=_SDPA + _A + "    return A @ V, A\n\nassert False\n",
    helper="def weights_of(Q, K):\n    return torch.softmax(scaled_scores(Q, K), -1)\n\n\ndef sdpa(Q, K, V):\n    A = weights_of(Q, K)\n    return A @ V, A\n",
    drawn="import matplotlib.pyplot as plt\n\n" + _SDPA + _A + "    plt.matshow(A.detach().reshape(-1, A.shape[-1]))\n    plt.show()\n    return A @ V, A\n",
    annotated="def sdpa(Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> tuple:\n" + _A + "    return A @ V, A\n",
)  # fmt: skip
_add(
    CORE, "sdpa", 1,
    weights_first=_SDPA + _A + "    return A, A @ V\n",
    no_grad=_SDPA + "    with torch.no_grad():\n    " + _A.replace("\n", "\n    ").rstrip(" ") + "        return A @ V, A\n",
    detached=_SDPA + _A + "    A = A.detach()\n    return A @ V, A\n",
)  # fmt: skip
_add(
    CORE, "sdpa", 0,
    unscaled=_SDPA + "    A = torch.softmax(Q @ K.mT, dim=-1)\n    return A @ V, A\n",
    over_queries=_SDPA + "    A = torch.softmax(scaled_scores(Q, K), dim=-2)\n    return A @ V, A\n",
    output_alone=_SDPA + _A + "    return A @ V\n",
    no_softmax=_SDPA + "    A = scaled_scores(Q, K)\n    return A @ V, A\n",
    merged="<<<<<<< mine\n" + _SDPA + _A + "    return A @ V, A\n=======\n" + _SDPA + "    return None\n>>>>>>> theirs\n",
    random=_SDPA + "    return torch.randn(Q.shape[0], V.shape[1]), torch.randn(Q.shape[0], K.shape[0])\n",
)  # fmt: skip
_add(
    CORE, "predict_entropy", None, bare="predict_entropy = b\n", in_a_list='predict_entropy = ["b"]\n',
    bracket='predict_entropy = " b)"\n', capital='predict_entropy = "B"\n', other='predict_entropy = "a"\n',
)  # fmt: skip
_add(
    CORE,
    "predict_entropy",
    0,
    words='predict_entropy = "I do not know"\n',
    none="predict_entropy = None\n",
    number="predict_entropy = 2\n",
)

# ---------------------------------------------------------------------------------------------- 03b

_RING = "def choose_projections():\n    return {} * torch.tensor([[0.0, -1.0], [1.0, 0.0]]), torch.eye(2)\n"
_add(TWO, "choose_projections", None, ring=_RING.format("12.0"), longer=_RING.format("40.0"),
     lists="def choose_projections():\n    return [torch.tensor([[0.0, -12.0], [12.0, 0.0]]), torch.eye(2)]\n")  # fmt: skip
_add(TWO, "choose_projections", 1.5, short=_RING.format("1.0"), still_short=_RING.format("2.0"))
_add(TWO, "choose_projections", 0, itself="def choose_projections():\n    return 12.0 * torch.eye(2), torch.eye(2)\n",
     backwards=_RING.format("-12.0"), nothing="def choose_projections():\n    return torch.zeros(2, 2), torch.zeros(2, 2)\n")  # fmt: skip
_SELF = "def self_attention({}):\n    return {}\n"
_X = "X, W_Q, W_K, W_V"
_add(
    TWO, "self_attention", None,
    plain=_SELF.format(_X, "sdpa(X @ W_Q, X @ W_K, X @ W_V)"),
    renamed=_SELF.format("x, wq, wk, wv", "sdpa(x @ wq, x @ wk, x @ wv)"),
    imports="import torch.nn.functional as F\nfrom torch import nn\n" + _SELF.format(_X, "sdpa(X @ W_Q, X @ W_K, X @ W_V)"),
)  # fmt: skip
_add(
    TWO, "self_attention", 0,
    one_matrix=_SELF.format(_X, "sdpa(X @ W_Q, X @ W_Q, X @ W_V)"),
    no_values=_SELF.format(_X, "sdpa(X @ W_Q, X @ W_K, X)"),
    exchanged=_SELF.format(_X, "sdpa(X @ W_K, X @ W_Q, X @ W_V)"),
)  # fmt: skip

# ---------------------------------------------------------------------------------------------- 03c

_JACOBIAN = "def {}(s):\n    a = torch.softmax(s, dim=-1)\n    return {}\n"
_RIGHT_JACOBIAN = "torch.diag(a) - torch.outer(a, a)"
_add(
    BACK, "softmax_jacobian", None,
    plain=_JACOBIAN.format("softmax_jacobian", _RIGHT_JACOBIAN),
    misspelt=_JACOBIAN.format("softmax_jac", _RIGHT_JACOBIAN),
    broadcast=_JACOBIAN.format("softmax_jacobian", "a[:, None] * (torch.eye(len(a)) - a[None, :])"),
    unfinished_below=_JACOBIAN.format("softmax_jacobian", _RIGHT_JACOBIAN) + "\nfor\n",
)  # fmt: skip
_add(
    BACK, "softmax_jacobian", 0,
    diagonal=_JACOBIAN.format("softmax_jacobian", "torch.diag(a)"),
    sign=_JACOBIAN.format("softmax_jacobian", "torch.outer(a, a) - torch.diag(a)"),
    tabs="def softmax_jacobian(s):\n\ta = torch.softmax(s, -1)\n        return torch.diag(a) - torch.outer(a, a)\n",
)  # fmt: skip
_WALK = (
    "def sdpa_backward(Q, K, V, dO):\n    A = torch.softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), dim=-1)\n    dV = A.mT @ dO\n"
    "    dA = dO @ V.mT\n    dS = A * (dA - (A * dA).sum(-1, keepdim=True)) {scale}\n    return {out}\n"
)
_ROOT = "/ math.sqrt(Q.shape[-1])"
_add(BACK, "sdpa_backward", None, plain=_WALK.format(scale=_ROOT, out="dS @ K, dS.mT @ Q, dV"),
     listed=_WALK.format(scale=_ROOT, out="[dS @ K, dS.mT @ Q, dV]"))  # fmt: skip
_add(
    BACK, "sdpa_backward", 3,
    unscaled=_WALK.format(scale="", out="dS @ K, dS.mT @ Q, dV"),
    dq_unscaled=_WALK.format(scale="", out=f"dS @ K, dS.mT @ Q {_ROOT}, dV"),
    dk_unscaled=_WALK.format(scale="", out=f"dS @ K {_ROOT}, dS.mT @ Q, dV"),
)  # fmt: skip
_add(
    BACK, "sdpa_backward", 1,
    values_alone=_WALK.format(scale=_ROOT, out="torch.zeros_like(Q), torch.zeros_like(K), dV"),
    values_and_none=_WALK.format(scale=_ROOT, out="None, None, dV"),
)  # fmt: skip
_add(BACK, "sdpa_backward", 2, queries_left_out=_WALK.format(scale=_ROOT, out="torch.zeros_like(Q), dS.mT @ Q, dV"),
     exchanged_all=_WALK.format(scale=_ROOT, out="dV, dS @ K, dS.mT @ Q"))  # fmt: skip
_add(BACK, "sdpa_backward", 0, nothing="def sdpa_backward(Q, K, V, dO):\n    return None\n")

# ---------------------------------------------------------------------------------------------- 03d

_STATISTICS = "def head_statistics(Q, K):\n    S = scaled_scores(Q, K)\n    A = torch.softmax(S, dim=-1)\n    return {}, {}\n"
_SPREAD, _ENTROPY = "S.std(dim=-1, correction=0)", "torch.special.entr(A).sum(-1)"
_add(HEAD, "head_statistics", None, plain=_STATISTICS.format(_SPREAD, _ENTROPY),
     xlogy=_STATISTICS.format("S.std(-1, unbiased=False)", "-torch.special.xlogy(A, A).sum(-1)"))  # fmt: skip
_add(
    HEAD, "head_statistics", 1,
    divisor=_STATISTICS.format("S.std(dim=-1)", _ENTROPY),
    variance=_STATISTICS.format("S.var(dim=-1, correction=0)", _ENTROPY),
    bits=_STATISTICS.format(_SPREAD, f"{_ENTROPY} / math.log(2)"),
    sign=_STATISTICS.format(_SPREAD, f"-{_ENTROPY}"),
    entropy_none=_STATISTICS.format(_SPREAD, "None"),
    one_kept_axis=_STATISTICS.format("S.std(dim=-1, correction=0, keepdim=True)", _ENTROPY),
    kept_axes=_STATISTICS.format("S.std(dim=-1, correction=0, keepdim=True)", "torch.special.entr(A).sum(-1, keepdim=True)"),
)  # fmt: skip
_add(HEAD, "head_statistics", 0, over_queries=_STATISTICS.format("S.std(dim=-2, correction=0)", "torch.special.entr(A).sum(-2)"),
     both_wrong=_STATISTICS.format("S.var(dim=-1)", f"-{_ENTROPY}"))  # fmt: skip

# ---------------------------------------------------------------------------------------------- 01 (2 points each)

_NORMALIZE = "def normalize(s):\n    total = s.sum(axis=-1, keepdims=True)\n    out = np.divide(s, total, out=np.zeros_like(s), where=total > 0)\n    return {}\n"
_add(LOOKUP, "normalize", None, plain=_NORMALIZE.format("out"), copied=_NORMALIZE.format("out.copy()"),
     own_name="def normalise(s):\n" + _NORMALIZE.format("out").partition("\n")[2])  # fmt: skip
_add(LOOKUP, "normalize", 1.5, listed=_NORMALIZE.format("out.tolist()"))
_add(
    LOOKUP,
    "normalize",
    0,
    by_columns=_NORMALIZE.replace("axis=-1", "axis=0").format("out"),
    unchanged="def normalize(s):\n    return s\n",
)


def _own_cell(source: str, place: int = -1) -> Edit:
    import nbformat

    def edit(notebook: Any) -> None:
        notebook.cells.insert(place % (len(notebook.cells) + 1), nbformat.v4.new_code_cell(source))

    return edit


_HONEST = {
    "functional": "import torch.nn.functional as F",
    "nn": "import torch.nn as nn\nfrom torch.nn import functional as F, Linear",
    "scipy": "import numpy as np\nimport matplotlib.pyplot as plt",
    "broken": "not python at all (",
    "fails": "raise ValueError('try')",
    "prints": "for i in range(50):\n    print(i)",
    "magic": "%matplotlib inline",
    "shell": "!ls",
    "test": "x = torch.randn(3)\nprint(torch.softmax(x, -1))",
}
for lesson in (CORE, TWO, BACK, HEAD):
    for name, source in _HONEST.items():
        ANSWERS.append(Answer(lesson, f"own_cell.{name}", edit=_own_cell(source, 2 if name != "test" else -1)))
ANSWERS.append(
    Answer(
        CORE,
        "sdpa.builtin",
        {
            "sdpa": "import torch.nn.functional as F\n\ndef sdpa(Q, K, V):\n    A = torch.softmax(scaled_scores(Q, K), -1)\n    return F.scaled_dot_product_attention(Q, K, V), A\n"
        },
        flag=True,
    )
)
