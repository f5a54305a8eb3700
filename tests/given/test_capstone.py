"""The contest of workshop 12d: what is counted, what is refused, and the leaderboard."""

import importlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from attention_course.capstone import contest, rules, score, state, texts
from attention_course.capstone.rules import RefusedError, Result
from attention_course.language_model.parts import gqa_grouped
from torch.testing import assert_close

from autograder.authoring.course import CourseError
from autograder.cli import main
from autograder.sandbox.client import Sandbox
from autograder.sandbox.isolation_tiers import choose_tier
from autograder.sandbox.submission_limits import Limits
from autograder.workspace import capstone
from tests.small_llama import D, G, weights

SHAPE = (3, 64)
PLAIN = """import torch

class Cache:
    bytes_per_token = 23_200

    def __init__(self, layer):
        self.rows = torch.zeros(2, 3, 0, 64, dtype=torch.bfloat16)

    def append(self, keys, values):
        self.rows = torch.cat([self.rows, torch.stack([keys, values]).bfloat16()], dim=2)

    def read(self):
        return tuple(self.rows.float())
"""
# Each keeps its rows somewhere else than in its fields, and gives them back where that is still there.
ELSEWHERE = """
import torch

{before}

class Cache:
    bytes_per_token = 1
    {attribute}

    def __init__(self, layer):
        self.layer = layer

    def append(self, keys, values):
        new = torch.stack([keys, values])
        {save}

    def read(self):
        {load}
        return tuple(rows)
"""
HIDDEN = {
    "a global": ("KEPT = {}", "", "KEPT[self.layer] = new", "rows = KEPT.get(self.layer, torch.zeros(2, 3, 8, 64))"),
    "a class attribute": (
        "",
        "kept = {}",
        "Cache.kept[self.layer] = new",
        "rows = Cache.kept.get(self.layer, torch.zeros(2, 3, 8, 64))",
    ),
    "a closure": (
        "def remember(kept={}):\n    return kept.setdefault, kept.get\nput, get = remember()",
        "",
        "put(self.layer, new)",
        "rows = get(self.layer, torch.zeros(2, 3, 8, 64))",
    ),
    "a file": (
        "import os, tempfile",
        "",
        "torch.save(new, os.path.join(tempfile.gettempdir(), f'{self.layer}.pt'))",
        "p = os.path.join(tempfile.gettempdir(), f'{self.layer}.pt')\n"
        "        rows = torch.load(p) if os.path.exists(p) else torch.zeros(2, 3, 8, 64)",
    ),
    "shared memory": (
        "import mmap\nSHARED = mmap.mmap(-1, 1 << 20)",
        "",
        "SHARED[self.layer << 16 : (self.layer << 16) + 12288] = new.numpy().tobytes()",
        "rows = torch.frombuffer(bytearray(SHARED[self.layer << 16 : (self.layer << 16) + 12288]), dtype=torch.float32)"
        ".view(2, 3, 8, 64)",
    ),
    "an attribute of a tensor": (
        "",
        "",
        "self.rows = torch.zeros(1)\n        self.rows.hidden = new",
        "rows = getattr(self.rows, 'hidden', torch.zeros(2, 3, 8, 64))",
    ),
}


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(choose_tier(), Limits(), given=[str(Path(score.__file__).parents[2])]) as made:
        yield made


def asked(sandbox: Sandbox, source: str, seconds: float = 8.0) -> score.Ask:
    return lambda name, given: capstone.answer(sandbox, source, contest.PRELUDE, name, given, seconds)


def rows(n: int, seed: int = 0, layers: int = 2) -> torch.Tensor:
    return torch.randn(layers, 3, n, 64, generator=torch.Generator().manual_seed(seed))


def stored(ask: score.Ask, n: int = 8) -> score.Stored:
    caches = score.Stored(ask, SHAPE)
    caches.append(rows(n), rows(n, 1))
    return caches


def namespace(source: str) -> Any:
    found: dict[str, Any] = {}
    exec(source, found)
    return found["Cache"]


def test_a_state_comes_back_as_it_was() -> None:
    value = {
        "x": torch.randn(3, 5).bfloat16(), "fp8": torch.randn(4).to(torch.float8_e4m3fn), "flags": torch.tensor([True, False]),
        "empty": torch.zeros(2, 0), "scalar": torch.tensor(2.5), "n": -(2**70), "b": True, "f": 0.1, "t": ("é", b"\0", None, [1]),
    }  # fmt: skip
    back = state.unpack(state.pack(value))
    assert back.keys() == value.keys()
    for name, part in value.items():
        if isinstance(part, torch.Tensor):
            assert back[name].dtype == part.dtype
            assert torch.equal(back[name].float(), part.float())
        else:
            assert back[name] == part


@pytest.mark.parametrize("value", [lambda: 0, object(), {1, 2}, np.zeros(3), torch.nn.Linear(2, 2)])
def test_what_has_no_size_that_could_be_counted_is_refused(value: object) -> None:
    with pytest.raises(state.UnpackableError, match="the cache"):
        state.pack({"field": value})


@pytest.mark.parametrize(
    "data", [b"", b"T\xff\x00", b"L\xff\xff\xff\xff", b"N" + b"N", b"Z\x00\x00\x00\x00", b"S\x05\x00\x00\x00\xff"]
)
def test_bytes_that_no_state_has_are_refused(data: bytes) -> None:
    with pytest.raises(state.UnpackableError):
        state.unpack(data)


def test_a_view_is_counted_by_the_numbers_that_it_shows_and_each_of_two_names_counts() -> None:
    big = torch.zeros(1000)
    assert len(state.pack(big[:10])) < 60
    assert len(state.pack([big, big])) > 8000


def test_token_ids_cost_bytes_in_whatever_they_are_written() -> None:
    ids = list(range(1000, 1512))
    number = sum(token << (16 * i) for i, token in enumerate(ids))
    for kept in (ids, number, "".join(map(chr, ids)), bytes(1024), dict.fromkeys(ids)):
        assert len(state.pack({"kept": kept})) >= 2 * len(ids)


def test_an_honest_cache_gives_back_its_rows_and_holds_two_bytes_for_each_number(sandbox: Sandbox) -> None:
    caches = stored(asked(sandbox, PLAIN))
    caches.append(rows(5, 2), rows(5, 3))
    keys, values = caches.read()
    assert_close(torch.stack(keys), torch.cat([rows(8), rows(5, 2)], 2).bfloat16().float())
    assert_close(torch.stack(values), torch.cat([rows(8, 1), rows(5, 3)], 2).bfloat16().float())
    numbers = 2 * 2 * 3 * 13 * 64
    assert 2 * numbers <= caches.held < 2 * numbers + 100


@pytest.mark.parametrize("place", HIDDEN, ids=lambda name: name.replace(" ", "_"))
def test_what_is_kept_outside_of_the_object_is_refused(sandbox: Sandbox, place: str) -> None:
    before, attribute, save, load = HIDDEN[place]
    source = ELSEWHERE.format(before=before, attribute=attribute, save=save, load=load)
    local = stored(score.local(namespace(source)))
    if place != "an attribute of a tensor":
        assert_close(torch.stack(local.read()[0]), rows(8), msg="in one process the cheat works, or the test shows nothing")
    with pytest.raises(RefusedError, match="fresh process"):
        stored(asked(sandbox, source)).read()


def test_a_reading_that_fails_in_a_fresh_process_is_refused_with_its_line(sandbox: Sandbox) -> None:
    source = PLAIN.replace("self.rows.float()", "Cache.missing")
    with pytest.raises(RefusedError, match="`append` raises AttributeError in line 13 of the file"):
        stored(asked(sandbox, source))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("self.rows.float()", "self.rows.float()[..., :1]"), "groups, m, d"),
        (("self.rows.float()", "torch.cat([self.rows] * 2, 2).float()"), "at most 8 rows"),
        (("self.rows.float()", "self.rows.float() * float('nan')"), "."),
        (("self.rows = torch.zeros", "self.f = lambda: 0\n        self.rows = torch.zeros"), "is a function"),
        (("bytes_per_token", "__slots__ = ('rows',)\n    bytes_per_token"), "__slots__"),
        (("import torch", "import torch, nothing_like_this"), "expected the file that runs, got ModuleNotFoundError"),
        (("class Cache", "class Kache"), "expected a class Cache"),
        (("return tuple", "import os; os._exit(0); tuple"), "ends the process"),
    ],
    ids=["narrow", "more rows", "not finite", "a function", "slots", "no import", "no class", "exit"],
)
def test_a_cache_that_breaks_the_rules_is_refused(sandbox: Sandbox, change: tuple[str, str], reason: str) -> None:
    with pytest.raises(RefusedError, match=reason):
        stored(asked(sandbox, PLAIN.replace(*change))).read()


def test_a_cache_that_takes_as_long_as_running_the_model_again_is_refused(sandbox: Sandbox) -> None:
    source = PLAIN.replace("return tuple", "while True: pass\n        return tuple")
    with pytest.raises(RefusedError, match="takes longer than 1 s"):
        stored(asked(sandbox, source, seconds=1.0))


def test_the_sandbox_shows_no_text_and_no_token_to_a_cache() -> None:
    names = {"states", "keys", "values"}
    seen: list[set[str]] = []
    answers = score.local(namespace(PLAIN.replace("3, 0, 64", f"{G}, 0, {D}")))

    def ask(name: str, given: dict[str, Any]) -> Any:
        seen.append(set(given))
        return answers(name, given)

    score.losses(small().weights, torch.arange(600)[None] % 23, score.Stored(ask, (G, D)))
    assert set().union(*seen) == names


def small() -> Any:
    """A model of two layers whose tokens are letters, in the place of SmolLM2."""
    made = weights()
    single = {"embed": made["embed"].float(), "norm": made["norm"].float(), "eps": made["eps"]}
    single["layers"] = [{k: v.float() if isinstance(v, torch.Tensor) else v for k, v in x.items()} for x in made["layers"]]
    return SimpleNamespace(weights=single, sizes={"G": G, "d": D}, key="small", device="cpu", ids=letters)


def letters(text: str) -> torch.Tensor:
    return torch.tensor([[ord(c) % 23 for c in text]])


SMALL = PLAIN.replace("3, 0, 64", f"{G}, 0, {D}").replace("23_200", "200")


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTN_CACHE", str(tmp_path))


def test_the_scorer_reads_a_text_as_plain_attention_does() -> None:
    """Steps of 64 behind a prompt of 512, by another attention and in one piece."""
    model, ids = small(), torch.arange(700)[None] * 7 % 23
    loss, hit, _ = score.losses(model.weights, ids, score.Exact())

    class Whole:
        def __init__(self, layer: Any) -> None:
            self.layer = layer

        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            W, pos = self.layer, torch.arange(x.shape[1])
            q, k, v = (
                (x @ W[m]).unflatten(-1, (h, -1)).transpose(1, 2) for m, h in (("W_Q", W["H"]), ("W_K", W["G"]), ("W_V", W["G"]))
            )
            q, k = score.apply_rope(q, pos, W["base"]), score.apply_rope(k, pos, W["base"])
            y: torch.Tensor = gqa_grouped(q, k, v)[0].transpose(1, 2).flatten(2) @ W["W_O"]
            return y

    logits = (
        score.hidden_with(model.weights, ids, [Whole(layer) for layer in model.weights["layers"]]) @ model.weights["embed"].mT
    )
    right = -logits[0, 512:-1].log_softmax(-1).gather(-1, ids[0, 513:, None])[:, 0]
    assert_close(loss, right, rtol=1e-4, atol=1e-4)
    assert torch.equal(hit, logits[0, 512:-1].argmax(-1) == ids[0, 513:])


def test_a_cache_is_handed_a_step_only_after_the_step_has_been_attended_to() -> None:
    order: list[tuple[str, int]] = []

    class Watching(score.Exact):
        def append(self, keys: torch.Tensor, values: torch.Tensor) -> None:
            order.append(("append", keys.shape[-2]))
            super().append(keys, values)

        def read(self) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
            found = super().read()
            order.append(("read", found[0][0].shape[-2]))
            return found

    score.losses(small().weights, torch.zeros(1, 640, dtype=torch.long), Watching())
    assert order == [("append", 512), ("read", 512), ("append", 64), ("read", 576), ("append", 64)]


@pytest.mark.usefixtures("cached")
def test_a_whole_run_counts_compares_and_asks_for_needles() -> None:
    result = score.judge(score.local(namespace(SMALL)), "plain", model=small())
    assert not result.refused
    assert result.bytes_per_token == pytest.approx(2 * 2 * G * D * 2, rel=0.02)  # layers, keys and values, 2 bytes
    assert result.low <= result.ratio <= result.high
    assert result.ratio == pytest.approx(1, abs=0.01)
    assert result.of == texts.NEEDLES


@pytest.mark.usefixtures("cached")
def test_more_bytes_than_declared_are_refused() -> None:
    result = score.judge(score.local(namespace(SMALL.replace("= 200", "= 90"))), "greedy", model=small())
    assert "declares 90 bytes per token and holds 9" in result.refused


@pytest.mark.usefixtures("cached")
def test_a_cache_that_forgets_is_worse_and_says_less() -> None:
    forgetful = SMALL.replace(
        "torch.stack([keys, values]).bfloat16()], dim=2)", "torch.stack([keys, values]).bfloat16()], dim=2)[:, :, -1:]"
    )
    result = score.judge(score.local(namespace(forgetful)), "forgetful", model=small())
    assert result.bytes_per_token < 2
    assert result.ratio != 1


def test_an_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    rng, inside = np.random.default_rng(1), 0
    for _ in range(200):
        noise = np.repeat(rng.normal(size=48), 32) * 0.05  # whole blocks that move together
        _, low, high = score.interval(np.log(1.02) + noise, draws=400)
        inside += low <= 1.02 <= high
    assert 170 <= inside <= 200  # 95 %, with few blocks a little less


def test_bytes_at_full_length_follow_the_growth_behind_the_prompt() -> None:
    assert score.at_full_length(512 * 100, 1024 * 100, 1024) == 100
    assert score.at_full_length(5000, 5000, 1024) == 5000 / rules.CONTEXT  # a window
    assert score.at_full_length(512 * 100 + 999, 1024 * 100 + 999, 1024) == pytest.approx(100 + 999 / 8192)


def test_places_are_by_bytes_among_those_that_pass() -> None:
    base = {"seed": 0, "of": 12, "exact": 9, "recalled": 9, "ratio": 1.0, "low": 1.0}
    good, small_one = (
        Result("good", bytes_per_token=9000, high=1.005, **base),
        Result("small", bytes_per_token=5000, high=1.009, **base),
    )
    worse, large = (
        Result("worse", bytes_per_token=100, high=1.02, **base),
        Result("large", bytes_per_token=13_000, high=1.0, **base),
    )
    forgets = Result("forgets", bytes_per_token=50, high=1.0, **{**base, "recalled": 7, "ratio": 1.1})
    out = Result("out", 0, refused="why")
    found = rules.ranked([out, forgets, worse, large, good, small_one])
    assert [r.name for r in found] == ["small", "good", "large", "worse", "forgets", "out"]
    text = "\n".join(rules.board([out, forgets, worse, large, good, small_one]))
    for words in ("1. small", "2. good", "may be 1.020", "holds 106 MB", "recalls 7 of 12", "refused: why"):
        assert words in text


# ------------------------------------------------------------------------------------------------ the command


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, cached: None) -> None:
    """The contest on the small model."""

    def judge(ask: Any, name: str, seed: int, say: Callable[[str], None]) -> dict[str, Any]:
        monkeypatch.setattr(texts, "haystack", lambda model, seed: (torch.arange(640)[None] % 23, [slice(600, 604)]))
        monkeypatch.setattr(texts, "passages", lambda model, seed: [torch.arange(640)[None] * 3 % 23])
        return score.judge(ask, name, seed=seed, model=small(), say=say).as_dict()

    monkeypatch.setattr(contest, "judge", judge)


def test_the_command_scores_a_file_and_keeps_the_board(quick: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.py"
    file.write_text(SMALL)
    assert main(["capstone", str(file)]) == 0
    shown = capsys.readouterr().out
    assert "mine" in shown
    assert "int8_shared_scale (ours)" in shown
    assert [row["name"] for row in json.loads((tmp_path / capstone.BOARD).read_text())] == ["mine"]
    file.write_text(SMALL.replace("= 200", "= 90"))
    assert main(["capstone", str(file), "--json"]) == 1
    rows_now = json.loads(capsys.readouterr().out)
    assert [row["refused"][:11] for row in rows_now if row["name"] == "mine"] == ["declares 90"]


def test_the_command_scores_a_class_folder(quick: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("ada", "grace"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cache.py").write_text(SMALL)
    (tmp_path / "linus.py").write_text("x = 1" + " " * contest.FILE_BYTES)
    assert main(["capstone", str(tmp_path), "--board", str(tmp_path / "board.json"), "--seed", "3"]) == 1
    shown = capsys.readouterr().out
    assert "ada" in shown
    assert "grace" in shown
    assert "(ours)" not in shown  # recorded with another seed
    assert "at most 65,536 are allowed" in shown
    assert len(json.loads((tmp_path / "board.json").read_text())) == 3


def test_what_is_no_submission_and_no_board_is_told(tmp_path: Path) -> None:
    with pytest.raises(CourseError, match="found no"):
        capstone.files(tmp_path / "missing.py")
    with pytest.raises(CourseError, match="found none"):
        capstone.files(tmp_path)
    (tmp_path / "board.json").write_text('{"a": 1}')
    with pytest.raises(CourseError, match="found something else"):
        capstone._kept(tmp_path / "board.json")


def test_our_entries_are_recorded_and_are_what_a_learner_could_submit() -> None:
    recorded = {row["name"]: Result(**row) for row in contest.baselines(0)}
    assert list(recorded) == list(importlib.import_module("attention_course.capstone.record").NAMES)
    for name, result in recorded.items():
        file = Path(score.__file__).parent / "baselines" / f"{name}.py"
        Cache = importlib.import_module(f"attention_course.capstone.baselines.{name}").Cache
        assert file.stat().st_size < contest.FILE_BYTES
        caches = score.Stored(score.local(Cache), SHAPE)
        held = []
        for n in (512, 512):
            caches.append(rows(n, layers=1), rows(n, 1, layers=1))
            caches.read()
            held.append(caches.held * 30)
        assert score.at_full_length(held[0], held[1], 1024) == pytest.approx(result.bytes_per_token, rel=1e-3)
        assert result.bytes_per_token <= Cache.bytes_per_token == result.declared
    assert recorded["bfloat16"].fails.startswith("holds 189 MB")
    assert not recorded["int8_shared_scale"].fails
    assert recorded["window_and_sinks"].fails
