# ruff: noqa: E501 - answers as students write them, one to a line
"""A flag accuses nobody who is honest: common imports, tests of one's own, unfinished cells; and it stays where it is true."""

from functools import cache
from typing import Any

import pytest

from autograder.authoring.course import course_root, find_lesson, lessons
from autograder.authoring.read_lesson import read_lesson
from autograder.authoring.reference_source import injected
from autograder.grading.marking import forbidden_names
from autograder.grading.marking.scheme import read_release
from autograder.notebooks.rebuild_submission import cell_of, rebuild
from autograder.notebooks.roles import grade_id, is_answer
from autograder.packs import pack_file

WITHOUT_COPIES = next(lesson.name for lesson in lessons() if "gqa_grouped" in lesson.checked)  # its kernel is forbidden there
LESSONS = ("03_scaled_dot_product", "04_masking", "05_multi_head", WITHOUT_COPIES)
COMMON = """
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.nn.functional
from torch import Tensor, nn, optim
from torch.nn import functional as F
from torch.nn import Linear, Module, Parameter, functional
from torch.nn.functional import softmax, relu, one_hot
from torch.utils.data import DataLoader, TensorDataset
import matplotlib.pyplot as plt
import seaborn as sns
import pandas as pd
import scipy.special
from scipy.special import softmax as reference_softmax
from einops import rearrange, einsum, reduce
from functools import partial, lru_cache, reduce
from itertools import product
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any, Callable, Optional
from tqdm.notebook import tqdm
from IPython.display import display, HTML
import math, random, os, sys, time, json, re, copy
import pickle, inspect, operator, pkgutil
from inspect import signature
from copy import deepcopy
from google.colab import drive
from __future__ import annotations
""".strip().split("\n")


@cache
def material(lesson: str) -> tuple[Any, dict[str, str], Any]:
    """The release, the reference's answers, and what the checks know."""
    root = course_root()
    answers = {str(grade_id(cell)): injected(cell) for cell in read_lesson(find_lesson(lesson)).cells if is_answer(cell)}
    return (
        read_release(root, lesson),
        answers,
        pack_file.load(root / "release" / lesson / f"{find_lesson(lesson).slug}{pack_file.SUFFIX}").in_code,
    )


def notebook_of(exercise: str) -> str:
    """The notebook of chapter 03 that asks `exercise`."""
    return next(lesson.name for lesson in lessons() if lesson.chapter == 3 and exercise in lesson.checked)


def said(lesson: str, answers: dict[str, str] | None = None, own: str = "", modules: tuple[str, ...] = ()) -> list[str]:
    """The flags on the reference's answers, some replaced by `answers`, with a cell of one's `own` at the end and the top."""
    released, right, exercises = material(lesson)
    cells = [cell_of(dict(cell)) for cell in released.cells]
    sources = {**right, **(answers or {})}
    cells = [
        cell_of({"cell_type": cell.kind, "source": sources.get(cell.grade_id or "", cell.source), "id": cell.cell_id,
                 "metadata": {"nbgrader": {"grade_id": cell.grade_id}} if cell.grade_id else {}})
        for cell in cells
    ]  # fmt: skip
    mine = [cell_of({"cell_type": "code", "source": own, "metadata": {}})] if own else []
    rebuilt = rebuild(released, [*mine, *cells, *mine])
    lesson_cells = {cell.source for cell in released.cells if grade_id(cell) is None}
    return forbidden_names.flags(exercises, rebuilt.notebook, modules, lesson_cells)


@pytest.mark.parametrize("lesson", LESSONS)
def test_no_common_import_is_flagged_wherever_it_stands(lesson: str) -> None:
    _, right, exercises = material(lesson)
    assert said(lesson) == []
    forbidding = [name for name, record in exercises.items() if record.forbid]
    assert forbidding
    for line in COMMON:
        assert said(lesson, own=line) == [], line
        assert said(lesson, modules=(f"{line}\n\ndef show(x):\n    return x\n",)) == [], line
        assert said(lesson, {name: f"{line}\n{right[name]}" for name in forbidding}) == [], line


HONEST_CELLS = {
    "compares with the built-in": "O, A = sdpa(Q, K, V)\nprint(np.allclose(O, F.scaled_dot_product_attention(Q, K, V)))",
    "lets PyTorch derive, to compare": "x = torch.ones(3, requires_grad=True)\ny = (x * x).sum()\ny.backward()\nprint(x.grad)",
    "calls it alone on a line": "F.scaled_dot_product_attention(Q, K, V)",
    "trains a model": "model = nn.Linear(2, 2)\nmodel.eval()\nloss = model(torch.ones(1, 2)).sum()\nloss.backward()\npattern = re.compile('a')",
    "asks for an attribute by a name that is written out": "print(getattr(torch, 'pi'))",
    "as a script spells a magic": "get_ipython().run_line_magic('matplotlib', 'inline')",
    "a magic": "%matplotlib inline\n!pip install einops",
    "an unfinished line": "A = torch.softmax(",
    "an unfinished function": "def mine(x):\n    return autograd.grad(\n",
    "keeps what it made": "import pickle\nwith_name = pickle.dumps([1, 2])\nimport json\njson.loads('[1]')",
    "names it in a sentence": "print('compare with F.scaled_dot_product_attention: the same')\nprint('a.b', b'bytes')",
    "times a function": "import timeit\nprint(timeit.timeit(lambda: sdpa(Q, K, V), number=3) / 3)",
    "times functions by their names": "from timeit import timeit\nfor each in (sdpa, torch.softmax):\n    print(timeit(each, number=3))",
    "reads a timer": "from timeit import default_timer as timer\nbegan = timer()\nprint(timer() - began)",
    "wraps a function": "from functools import wraps\ndef timed(f):\n    @wraps(f)\n    def inner(*given):\n        return f(*given)\n    return inner",
    "looks at the difference": "(sdpa(Q, K, V)[0] - F.scaled_dot_product_attention(Q, K, V)).abs().max().item()",
    "compares as PyTorch's own tests do": "torch.testing.assert_close(sdpa(Q, K, V)[0], F.scaled_dot_product_attention(Q, K, V))",
    "keeps what it found": "found = []\nfound.append(F.scaled_dot_product_attention(Q, K, V))\nprint(found[0] - sdpa(Q, K, V)[0])",
    "compiles a function": "quick = torch.jit.script(mine)\nquick = torch.compile(mine)",
    "opens a picture": "from PIL import Image\npicture = Image.open('a.png')",
}


@pytest.mark.parametrize("cell", HONEST_CELLS.values(), ids=HONEST_CELLS)
def test_an_honest_cell_of_ones_own_is_not_flagged(cell: str) -> None:
    assert said("03_scaled_dot_product", own=cell) == []


BELOW = {
    "a test that shares the lesson's names": "\nO, A = sdpa(torch.randn(2, 3), torch.randn(4, 3), torch.randn(4, 2))\nprint(O.shape, A.sum(-1))",
    "a test against the built-in": "\nexpected = F.scaled_dot_product_attention(Q, K, V)\nassert torch.allclose(sdpa(Q, K, V)[0], expected)",
    "a loop of tests": "\nfor _ in range(3):\n    print(sdpa(Q, K, V)[0] - F.scaled_dot_product_attention(Q, K, V))",
}


@pytest.mark.parametrize("below", BELOW.values(), ids=BELOW)
def test_a_test_below_an_answer_is_not_flagged(below: str) -> None:
    right = material("03_scaled_dot_product")[1]["sdpa"]
    assert said("03_scaled_dot_product", {"sdpa": right + below}) == []


@pytest.mark.parametrize("broken", ["head_statistics", "sdpa", "scaled_scores", "sdpa_backward", "softmax_jacobian"])
@pytest.mark.parametrize(
    "tail", ["\nx = torch.softmax(", "\n    return (", "\n<<<<<<< HEAD\nx = 1\n=======\nx = 2\n>>>>>>> theirs"]
)
def test_an_answer_that_does_not_parse_accuses_nobody(broken: str, tail: str) -> None:
    lesson = notebook_of(broken)
    assert said(lesson, {broken: material(lesson)[1][broken] + tail}) == []


BUILT_IN = (
    "def sdpa(Q, K, V):\n    A = torch.softmax(Q @ K.transpose(-2, -1) / Q.shape[-1] ** 0.5, -1)\n    return {}(Q, K, V), A"
)
TRUE: dict[str, tuple[dict[str, str], str, str]] = {
    "in the answer": ({"sdpa": BUILT_IN.format("F.scaled_dot_product_attention")}, "", "sdpa names F.scaled"),
    "by a function in a cell of one's own": (
        {"sdpa": BUILT_IN.format("quick")},
        "def quick(q, k, v):\n    return F.scaled_dot_product_attention(q, k, v)",
        "sdpa names F.scaled",
    ),
    "kept in a table": (
        {"sdpa": BUILT_IN.format("tools['a']")},
        "tools = {}\ntools['a'] = F.scaled_dot_product_attention",
        "sdpa names F.scaled",
    ),
    "put in the answer's place": ({}, "sdpa = lambda Q, K, V: (F.scaled_dot_product_attention(Q, K, V), None)", "sdpa names F.scaled"),
    "in the answer to another exercise": (
        {"scaled_scores": "from torch.nn.functional import scaled_dot_product_attention as quick", "sdpa": BUILT_IN.format("quick")},
        "",
        "sdpa names F.scaled",
    ),
    "set by a function that is called below": (
        {"sdpa": "def prepare():\n    global quick\n    quick = F.scaled_dot_product_attention\nprepare()\n" + BUILT_IN.format("quick")},
        "",
        "sdpa names F.scaled",
    ),
    "autograd for the backward pass": (
        {"sdpa_backward": "def sdpa_backward(Q, K, V, dO):\n    from torch import autograd as a\n    return a.grad(sdpa(Q, K, V)[0], (Q, K, V), dO)"},
        "",
        "sdpa_backward names",
    ),
    "functional of autograd": (
        {"softmax_jacobian": "from torch.autograd.functional import jacobian as j\ndef softmax_jacobian(a):\n    return j(softmax, a)"},
        "",
        "softmax_jacobian names",
    ),
    "put in a table beside another assignment": (
        {"sdpa": BUILT_IN.format("tools[0]")},
        "tools = []\n_ = tools.append(F.scaled_dot_product_attention)",
        "sdpa names F.scaled",
    ),
    "put in a table by a loop": (
        {"sdpa": BUILT_IN.format("tools['a']")},
        "tools = {}\nfor tools['a'] in [F.scaled_dot_product_attention]: pass",
        "sdpa names F.scaled",
    ),
    "put in a table with a type": (
        {"sdpa": BUILT_IN.format("tools['a']")},
        "tools = {}\ntools['a']: object = F.scaled_dot_product_attention",
        "sdpa names F.scaled",
    ),
    "put in a table by its class": (
        {"sdpa": BUILT_IN.format("tools[0]")},
        "tools = []\nif True: list.append(tools, F.scaled_dot_product_attention)",
        "sdpa names F.scaled",
    ),
    "put in a table by a decorator": (
        {"sdpa": BUILT_IN.format("tools[0]")},
        "tools = []\n@tools.append\ndef quick(q, k, v):\n    return F.scaled_dot_product_attention(q, k, v)",
        "sdpa names F.scaled",
    ),
    "put in a table by a function": (
        {"sdpa": BUILT_IN.format("tools[0]")},
        "tools = []\ndef keep(tool):\n    tools.append(tool)\nkeep(F.scaled_dot_product_attention)",
        "sdpa names F.scaled",
    ),
    "put in a table by a function of one's own as a decorator": (
        {"sdpa": BUILT_IN.format("tools[0]")},
        "tools = []\ndef keep(tool):\n    tools.append(tool)\n@keep\ndef quick(q, k, v):\n    return F.scaled_dot_product_attention(q, k, v)",
        "sdpa names F.scaled",
    ),
    "put in a table that a function is given": (
        {"sdpa": BUILT_IN.format("tools['a']")},
        "tools = {}\ndef fill(d):\n    d['a'] = F.scaled_dot_product_attention\nfill(tools)",
        "sdpa names F.scaled",
    ),
    "put together of two texts": ({"sdpa": BUILT_IN.format("getattr(F, 'scaled_dot' '_product_attention')")}, "", "sdpa names F.scaled"),
    "with a letter by its number": ({"sdpa": BUILT_IN.format("getattr(F, 'scaled_dot_product_attentio\\x6e')")}, "", "sdpa names F.scaled"),
    "with a letter by its number, and as it is in a test": (
        {"sdpa": BUILT_IN.format("getattr(F, 'scaled_dot_product_attentio\\x6e')") + "\nprint(F.scaled_dot_product_attention(Q, K, V))"},
        "",
        "sdpa names F.scaled",
    ),
    "bound by a pattern": (
        {"sdpa": BUILT_IN.format("quick")},
        "match F:\n    case object(scaled_dot_product_attention=quick): pass",
        "sdpa names F.scaled",
    ),
    "where lines end as on old Macs": (
        {"sdpa": BUILT_IN.format("quick")},
        "import torch.nn.functional as F\rquick = F.scaled_dot_product_attention",
        "sdpa names F.scaled",
    ),
    "where IPython takes its prompt off the second line": (
        {"sdpa": BUILT_IN.format("F.scaled_dot_product_attention").replace("\n", "\n   ...: ")},
        "",
        "sdpa names F.scaled",
    ),
    "where IPython takes off a prompt alone on its line": (
        {"sdpa": ">>>\n>>> " + BUILT_IN.format("F.scaled_dot_product_attention").replace("\n", "\n... ")},
        "",
        "sdpa names F.scaled",
    ),
    "where IPython takes off its own prompt": (
        {"sdpa": "[ins] In [1]: " + BUILT_IN.format("F.scaled_dot_product_attention").replace("\n", "\n   ...: ")},
        "",
        "sdpa names F.scaled",
    ),
    "under a name made at run time": (
        {"sdpa": BUILT_IN.format("getattr(F, 'scaled_dot' + '_product_attention')")},
        "",
        "sdpa may build a name",
    ),
    "where only IPython runs the cell": ({"sdpa": "%precision 3\n" + BUILT_IN.format("F.scaled_dot_product_attention")}, "", "sdpa names F.scaled"),
    "where IPython takes the indentation away": (
        {"sdpa": "  " + BUILT_IN.format("F.scaled_dot_product_attention").replace("\n", "\n  ")},
        "",
        "sdpa names F.scaled",
    ),
}  # fmt: skip


NAMED, BUILT = "sdpa names F.scaled", "sdpa may build a name"
HIDDEN_WAYS = {
    "as a keyword of a pattern": ("match F:\n        case object(scaled_dot_product_attention=o): pass", NAMED),
    "in bytes": ("import pickle\n    o = pickle.loads(b'ctorch.nn.functional\\nscaled_dot_product_attention\\n.')", NAMED),
    "in a dotted path": (
        "import pkgutil\n    o = pkgutil.resolve_name('torch.nn.functional:scaled_dot_product_attention')",
        NAMED,
    ),
    "pickled in pieces": (
        "import pickle as p\n    o = p.loads(b'ctorch.nn.functional\\nscaled_dot' + b'_product_attention\\n.')",
        BUILT,
    ),
    "pickled, by one name": (
        "from pickle import loads\n    o = loads(b'ctorch.nn.functional\\nscaled_dot' + b'_product_attention\\n.')",
        BUILT,
    ),
    "among the members of a module": (
        "import inspect\n    o = dict(inspect.getmembers(F))['scaled_dot_' + 'product_attention']",
        BUILT,
    ),
    "located": ("import pydoc\n    o = pydoc.locate('torch.nn.functional.scaled_dot' + '_product_attention')", BUILT),
    "resolved": ("import pkgutil\n    o = pkgutil.resolve_name('torch.nn.functional:scaled_dot' + '_product_attention')", BUILT),
    "among what can be overridden": (
        "o = [f for f in torch.overrides.get_testing_overrides() if 'product_att' in str(f)][0]",
        BUILT,
    ),
    "among PyTorch's operations": ("o = torch._C._jit_get_operation('aten::scaled_dot' + '_product_attention')[0]", BUILT),
    "a field of a format": (
        "import string\n    o = string.Formatter().get_field('0.scaled_dot' + '_product_attention', (F,), {})[0]",
        BUILT,
    ),
    "as a type that is written as a text": (
        "import typing\n    o = typing.ForwardRef('F.scaled_dot' + '_product_attention')._evaluate({'F': F}, None, frozenset())",
        BUILT,
    ),
    "found by a module of Python": (
        "from xmlrpc.server import resolve_dotted_attribute as find\n    o = find(F, 'scaled_dot' + '_product_attention')",
        BUILT,
    ),
    "found by a module of Jupyter": (
        "from traitlets import import_item as find\n    o = find('torch.nn.functional.scaled_dot' + '_product_attention')",
        BUILT,
    ),
    "in a text that is timed": (
        "import timeit\n    found = []\n    timeit.timeit('found.append(F.scaled_dot' + '_product_attention)', globals=dict(found=found, F=F))",
        BUILT,
    ),
    "in a text that is timed elsewhere": (
        "from timeit import Timer\n    code = 'found.append(F.scaled_dot' + '_product_attention)'\n    Timer(code).timeit()",
        BUILT,
    ),
    "in a text with a name that is timed": (
        "import timeit\n    code = 'found.append(F.scaled_dot' + '_product_attention)'\n    timeit.timeit(code, globals=dict(F=F))",
        BUILT,
    ),
    "pickled for another process": (
        "from multiprocessing.reduction import ForkingPickler as p\n    o = p.loads(b'ctorch.nn.functional\\nscaled_dot' + b'_product_attention\\n.')",
        BUILT,
    ),
    "pickled in an array": ("o = np.load(path, allow_pickle=True).item()", BUILT),
    "an overload among PyTorch's operations": (
        "o = torch._C._get_operation_overload('aten::scaled_dot' + '_product', '')[0]",
        BUILT,
    ),
    "the part that a processor runs": ("o = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu", NAMED),
    "by a pattern that says its own parts": (
        "class Any(type):\n        def __instancecheck__(self, _): return True\n    class P(metaclass=Any):\n"
        "        __match_args__ = ('scaled_dot' + '_product_attention',)\n    match F:\n        case P(o): pass",
        BUILT,
    ),
    "among what a module refers to": (
        "import gc\n    o = [d for d in gc.get_referents(F) if type(d) is dict][0]['scaled_dot' + '_product_attention']",
        BUILT,
    ),
    "among the attributes that a wrapper copies": (
        "import functools\n    functools.wraps(F, ('scaled_dot' + '_product_attention',), ())(tools)\n    o = tools.found",
        BUILT,
    ),
    "among the attributes that a wrapper copies, by another name": (
        "from functools import update_wrapper as w\n    w(tools, F, ('scaled_dot' + '_product_attention',), ())\n    o = tools.found",
        BUILT,
    ),
    "in an annotation that is evaluated": (
        "import inspect\n    tools.__annotations__ = {'a': 'F.scaled_dot' + '_product_attention'}\n"
        "    o = inspect.signature(tools, eval_str=True).parameters['a'].annotation",
        BUILT,
    ),
    "resolved for a log": (
        "import logging.config\n    o = logging.config.dictConfigClass({}).resolve('torch.nn.functional.scaled_dot' + '_product_attention')",
        BUILT,
    ),
    "resolved for a log, by another name": (
        "from logging import config as c\n    o = c.dictConfigClass({}).resolve('torch.nn.functional.scaled_dot' + '_product_attention')",
        BUILT,
    ),
    "sent to oneself": (
        "import multiprocessing\n    a, b = multiprocessing.Pipe()\n    a.send_bytes(bytes(codes))\n    o = b.recv()",
        BUILT,
    ),
    "pickled, by a module that another one imports": (
        "from torch.serialization import pickle as p\n    o = p.loads(bytes(codes))",
        BUILT,
    ),
    "pickled, by a module under another name": ("import pickle\n    p = pickle\n    o = p.loads(bytes(codes))", BUILT),
    "pickled in an array, by the place of an argument": ("o = np.load(path, None, True).item()", BUILT),
    "among the kinds of layers": (
        "o = [c for c in nn.Module.__subclasses__() if c.__name__ == 'Multihead' + 'Attention'][0](4, 1)",
        BUILT,
    ),
    "in a text for NumPy's tests": (
        "np.testing.runstring('o = F.scaled_dot' + '_product_attention', tools)\n    o = tools['o']",
        BUILT,
    ),
    "in a text that NumPy measures": (
        "np.testing.measure('tools.append(F.scaled_dot' + '_product_attention)')\n    o = tools[0]",
        BUILT,
    ),
    "in a text for a graph": (
        "torch.fx.graph_module._exec_with_source('o = F.scaled_dot' + '_product_attention', tools)\n    o = tools['o']",
        BUILT,
    ),
    "among what PyTorch may run on its own": (
        "t = torch\n    o = [f for f, name in t.jit._builtins._builtin_ops if 'scaled_dot_p' in name][0]",
        BUILT,
    ),
    "in a module that is written first": (
        "import sys\n    np.savetxt('six.py', ['from torch.nn.functional import scaled_dot' + '_product_attention as o'], fmt='%s')\n"
        "    from six import o",
        BUILT,
    ),
    "in a folder of one's own": ("import sys\n    sys.path.insert(0, folder)\n    from six import o", BUILT),
    "in a file that is opened elsewhere": ("import io\n    io.open('six.py', 'w').write(text)\n    from six import o", BUILT),
    "in a function's code": (
        "o = lambda: F.relu\n    o.__code__ = o.__code__.replace(co_names=('F', 'scaled_dot' + '_product_attention'))\n    o = o()",
        BUILT,
    ),
    "by another program": ("import os\n    o = os.system(text)", BUILT),
    "by another program of one's own": ("import subprocess as s\n    o = s.run([python, '-c', text])", BUILT),
    "for texts of many lengths": ("from torch.nn.attention.varlen import varlen_attn as o", NAMED),
    "under a name made at run time, with another thing in its place": (
        "o = getattr(F, 'scaled_dot' + '_product_attention', 'none')",
        BUILT,
    ),
    "in a text that a magic runs": (
        "o = get_ipython().run_line_magic('time', 'F.scaled_dot' + '_product_attention(Q, K, V)')",
        BUILT,
    ),
    "in a text that IPython runs": (
        "import IPython\n    o = IPython.core.interactiveshell.InteractiveShell.instance().ev('F.scaled_dot' + '_product_attention')",
        BUILT,
    ),
    "in a program for PyTorch": ("o = torch.jit.CompilationUnit('def o(q, k, v): return torch.' + NAME).o", BUILT),
}


@pytest.mark.parametrize(("line", "flag"), HIDDEN_WAYS.values(), ids=HIDDEN_WAYS)
def test_a_way_round_a_name_is_flagged(line: str, flag: str) -> None:
    found = said("03_scaled_dot_product", {"sdpa": BUILT_IN.format("o").replace("    A =", f"    {line}\n    A =", 1)})
    assert any(each.startswith(flag) for each in found), found


def test_a_norm_under_its_other_name_is_flagged() -> None:
    answer = "def rms_norm(X, gain, eps=1e-6):\n    return F.rms_norm(X, X.shape[-1:], gain, eps)"
    found = said("05c_a_block_of_your_own", {"rms_norm": answer})
    assert any(each.startswith("rms_norm names RMSNorm") for each in found), found
    assert said("05c_a_block_of_your_own") == []


@pytest.mark.parametrize(("answers", "own", "flag"), TRUE.values(), ids=TRUE)
def test_a_true_flag_stays(answers: dict[str, str], own: str, flag: str) -> None:
    found = said(notebook_of(flag.split()[0]), answers, own)
    assert any(each.startswith(flag) for each in found), found


def test_a_module_counts_where_the_answer_asks_it() -> None:
    module = "import torch.nn.functional as F\ndef quick(*given):\n    return F.scaled_dot_product_attention(*given)\n"
    asks = {"sdpa": "import helper\n" + BUILT_IN.format("helper.quick")}
    assert any(flag.startswith("sdpa names") for flag in said("03_scaled_dot_product", asks, modules=(module,)))
    assert said("03_scaled_dot_product", modules=(module,)) == []
