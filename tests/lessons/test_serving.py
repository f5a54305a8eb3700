"""Workshop 07d: the references against independent ones, the simulated server, and what the text says of it."""

import random
import re
from itertools import pairwise
from typing import Any

import pytest
import torch
from attention_course.language_model.step_times import MANY_TEXTS, ONE_TEXT, step_times
from attention_course.serving import Chat, Plan, chats, percentile, serve, step_seconds
from attention_course.toy_decoder import copy_to_row, step_in_rows, toy_model
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from autograder.authoring.course import course_root
from solutions.kv_cache import CachedModel, forward
from solutions.serving import CarelessCache, PrefixCache, SharedPages, batch_positions, plan_step

MODEL = toy_model()


def whole_prompts(left: list[int], budget: int) -> list[int]:
    first = next((i for i, tokens in enumerate(left) if tokens), None)
    return [1] * len(left) if first is None else [tokens * (i == first) for i, tokens in enumerate(left)]


def four_people(plan: Plan, budget: int = 0) -> list[Chat]:
    asked = [Chat(0, 60, 60), Chat(1, 80, 60), Chat(2, 50, 60), Chat(4, 1500, 20)]
    serve(asked, plan, budget)
    return asked


def _random(n: int, seed: int, high: int) -> Tensor:
    return torch.randint(high, (n,), generator=torch.Generator().manual_seed(seed))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(0, 99))
def test_texts_of_unequal_lengths_step_together_as_if_each_were_alone(lengths: list[int], seed: int) -> None:
    rows = [_random(n + 1, seed=seed + i, high=17) for i, n in enumerate(lengths)]
    buffers = [torch.full((2, len(rows), 3, 9, 8), 9.0, dtype=torch.float64) for _ in MODEL["layers"]]  # as if somebody had left
    for row, ids in enumerate(rows):
        alone = CachedModel(MODEL, capacity=9)
        alone.prefill(ids[None, :-1], chunk=9)
        copy_to_row(buffers, row, alone.caches)
    new = torch.stack([ids[-1] for ids in rows])
    together = step_in_rows(MODEL, new, torch.tensor(lengths), buffers, batch_positions)
    torch.testing.assert_close(together, torch.stack([forward(MODEL, ids[None])[0, -1] for ids in rows]))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("fa"), st.integers(0, 3), st.integers(0, 5)), max_size=12), st.integers(1, 4))
def test_shared_pages_read_as_lists_do_and_copy_no_full_page(events: list[tuple[str, int, int]], size: int) -> None:
    pages, lists, written = SharedPages(200, size, 1), {"0": [0.0] * 0}, 0
    pages.start("0")
    for what, which, count in events:
        chosen = str(which % len(lists))
        if what == "f":
            new = str(len(lists))
            pages.fork(chosen, new)
            lists[new] = list(lists[chosen])
        else:
            tokens = [float(written + i) for i in range(count)]
            written += count
            pages.append(chosen, torch.tensor(tokens).reshape(-1, 1))
            lists[chosen] += tokens
    for name, expected in lists.items():
        if expected:
            assert pages.read(name)[:, 0].tolist() == expected
    assert pages.used() <= -(-written // size) + len(events) * 2


@pytest.mark.parametrize("room", [3, 8, 1000])
def test_a_prefix_cache_finds_no_more_than_stored_texts_share_and_all_of_it_where_there_is_room(room: int) -> None:
    g, cache, before = random.Random(1), PrefixCache(size=4, room=room), list[list[int]]()
    for _ in range(200):
        text = [g.randint(0, 1) for _ in range(g.randint(1, 30))]
        found = cache.request(text)
        shared = max((_alike(text, other) for other in before), default=0)
        pages = min(shared, len(text) - 1) // 4 * 4
        assert found <= pages
        assert len(cache.pages) <= room
        if room == 1000:
            assert found >= max((min(_alike(text, o), len(text) - 1, len(o) - 1) // 4 * 4 for o in before), default=0)
        before.append(text)


def _alike(a: list[int], b: list[int]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def test_the_careless_cache_finds_somebody_elses_words_and_drops_beginnings() -> None:
    texts = "aaaabbbbe", "ccccdddde", "aaaadddde"
    for kind, found, again in ((CarelessCache, 8, 0), (PrefixCache, 4, 12)):
        cache = kind(4, 20)
        assert [cache.request([ord(x) for x in text]) for text in texts] == [0, 0, found]
        cache = kind(4, 3)
        assert [cache.request(list(range(21))) for _ in range(2)] == [0, again]


def test_a_plan_keeps_the_budget_and_serves_answers_first_then_prompts_in_order() -> None:
    g = random.Random(2)
    for _ in range(300):
        left = [g.choice([0, 0, g.randint(1, 300)]) for _ in range(g.randint(1, 16))]
        budget = g.randint(16, 200)
        plan = plan_step(left, budget)
        assert sum(plan) == min(budget, sum(max(tokens, 1) for tokens in left))
        assert all(count == 1 for count, tokens in zip(plan, left, strict=True) if tokens == 0)
        prompts = [(count, tokens) for count, tokens in zip(plan, left, strict=True) if tokens]
        assert all(later == 0 for (count, tokens), (later, _) in pairwise(prompts) if count < tokens)


def test_step_times_are_modelled_within_a_third() -> None:
    one, many = step_times()["one text"], step_times()["many texts"]
    assert (tuple(one["tokens"]), tuple(many["tokens"])) == (ONE_TEXT, MANY_TEXTS)
    for past in (256, 1280):
        for count, seconds in zip(one["tokens"], one[f"{past} before"], strict=True):
            assert step_seconds(count, past) == pytest.approx(seconds, rel=1 / 3)
        for count, seconds in zip(many["tokens"], many[f"{past} before"], strict=True):
            if count * past < 10_500:
                assert step_seconds(count, count * past) == pytest.approx(seconds, rel=1 / 3)


def test_longer_steps_than_recorded_take_longer() -> None:
    assert step_seconds(1000, 256) > step_seconds(600, 256) > step_seconds(513, 256)


def test_every_token_of_every_answer_is_written_in_order_and_none_before_its_prompt_was_processed() -> None:
    asked = chats(12)
    serve(asked, plan_step, 128)
    assert all(len(chat.times) == chat.answer for chat in asked)
    assert all(chat.cached == chat.prompt + chat.answer - 1 for chat in asked)
    assert all(sooner < later for chat in asked for sooner, later in pairwise([chat.arrival, *chat.times]))


def test_one_at_a_time_takes_as_long_as_its_steps() -> None:
    chat = Chat(2, 40, 3)
    serve([chat], whole_prompts, 0, most=1)
    first = 2 + step_seconds(40, 0)
    assert chat.times == pytest.approx([first, first + step_seconds(1, 40), first + step_seconds(1, 40) + step_seconds(1, 41)])


@pytest.mark.parametrize(
    "plan", [lambda left, budget: [0] * len(left), lambda left, budget: [1], lambda left, budget: [99] * len(left)]
)
def test_a_plan_that_cannot_be_carried_out_is_refused(plan: Plan) -> None:
    with pytest.raises(ValueError, match="expected"):
        serve([Chat(0, 5, 2), Chat(0, 5, 2)], plan, 10)


def test_a_long_prompt_stops_the_readers_for_eight_seconds_and_a_budget_of_128_for_less_than_one() -> None:
    *readers, document = four_people(whole_prompts)
    assert 8 < max(chat.longest_gap for chat in readers) < 9
    assert document.first_token < 8.5
    *readers, document = four_people(plan_step, 128)
    assert max(chat.longest_gap for chat in readers) < 0.9
    assert 9.9 < document.first_token < 10.3
    *readers, document = four_people(plan_step, 32)
    assert 0.25 < max(chat.longest_gap for chat in readers) < 0.4
    assert 16 < document.first_token < 18


def test_batching_almost_doubles_what_the_server_takes_and_the_budget_steadies_the_pace() -> None:
    speed, pace = {}, {}
    for name, plan, budget, most in (
        ("one", whole_prompts, 0, 1),
        ("whole", whole_prompts, 0, 16),
        ("chunks", plan_step, 128, 16),
    ):
        asked = chats(24)
        serve(asked, plan, budget, most=most)
        speed[name] = sum(chat.answer for chat in asked) / max(chat.times[-1] for chat in asked)
        pace[name] = percentile([chat.per_token for chat in asked], 0.9)
    assert 1.7 < speed["whole"] / speed["one"] < 2
    assert speed["chunks"] == pytest.approx(speed["whole"], rel=0.02)
    assert pace["chunks"] < 0.8 * pace["whole"]


def test_sixteen_texts_take_less_than_four_times_as_long_as_one() -> None:
    times = dict(zip(MANY_TEXTS, step_times()["many texts"]["256 before"], strict=True))
    assert times[16] / times[1] < 4


@pytest.mark.parametrize(("share", "value"), [(0.5, 2), (0.9, 4), (0.0, 1), (1.0, 4)])
def test_a_percentile_is_one_of_the_values(share: float, value: int) -> None:
    assert percentile([4, 2, 1, 3], share) == value


def test_the_draft_of_positions_is_right_for_equal_lengths_and_shows_a_short_text_free_slots() -> None:
    text = (course_root() / "lessons" / "07d_serving.md").read_text(encoding="utf-8")
    cell = next(c for c in re.findall(r"locked: true\}\n\n(.*?)\n```", text, re.DOTALL) if "def positions_as_shown" in c)
    names: dict[str, Any] = {"torch": torch}
    exec(cell.split("\n\n\n")[0], names)
    for lengths in (torch.tensor([9, 9]), torch.tensor([9, 2])):
        (pos, keep), (right_pos, right) = (f(lengths, 1, 12) for f in (names["positions_as_shown"], batch_positions))
        assert torch.equal(pos, right_pos)
        assert (keep & ~right).sum(-1).flatten().tolist() == [0, 9 - int(lengths[1])]
