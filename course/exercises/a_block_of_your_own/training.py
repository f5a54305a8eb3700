"""The training loop of a language model, in which bugs are to be found."""

import torch
import torch.nn.functional as F

from autograder import After, Case, Code, Draw, Exercise, Instead, Made, Misconception, Tolerance, Variant
from solutions import a_block_of_your_own as ref

# Small models in double precision. The first is a table of logits for each character, and the second also reads earlier ones.
TABLE = Code("torch.nn.Embedding.from_pretrained(torch.sin(1.0 + torch.arange(25.0).double()).view(5, 5), freeze=False)")
EARLIER = Code(
    "type('Earlier', (torch.nn.Module,), {'__init__': lambda self: (torch.nn.Module.__init__(self), setattr(self, 'W', "
    "torch.nn.Parameter(torch.cos(torch.arange(49.0).double()).view(7, 7))))[0], "
    "'forward': lambda self, ids: torch.tanh(self.W[ids].cumsum(1))})()"
)


def _texts(draw: Draw, model: Code, characters: int, steps: int, texts: int, places: int, rate: float):
    ids = draw.rng.integers(0, characters, (steps, texts, places + 1))
    return {"model": model, "batches": Code(f"iter(torch.tensor({ids.tolist()}))"), "rate": rate}


def _table(draw: Draw):
    return _texts(draw, TABLE, 5, 4, 3, 6, 0.3)


def _earlier(draw: Draw):
    return _texts(draw, EARLIER, 7, 5, 2, 4, 0.1)


def _shift(batch):
    return batch[:, :-1], batch[:, 1:]


def _train(
    *,
    split=_shift,
    loss_of=lambda logits, targets: F.cross_entropy(logits.mT, targets),
    optimiser=torch.optim.AdamW,
    rate_of=lambda rate: rate,
    zero=True,
    step=True,
    backward_first=True,
    fresh=False,
):
    """The training loop with one part replaced by a mistake."""

    def answer(model, batches, rate):
        def make():
            return optimiser(model.parameters(), lr=rate_of(rate))

        adam, losses = make(), []
        for batch in batches:
            adam = make() if fresh else adam
            inputs, targets = split(batch)
            loss = loss_of(model(inputs), targets)
            if zero:
                adam.zero_grad()
            if not backward_first:
                adam.step()
            loss.backward()
            if step and backward_first:
                adam.step()
            losses.append(loss.item())
        return losses

    return answer


def _stepped_before_backward(model, batches, rate):
    adam, losses = torch.optim.AdamW(model.parameters(), lr=rate), []
    for batch in batches:
        loss = F.cross_entropy(model(batch[:, :-1]).mT, batch[:, 1:])
        adam.step()
        adam.zero_grad()
        loss.backward()
        losses.append(loss.item())
    return losses


def _measured_after_the_step(model, batches, rate):
    adam, losses = torch.optim.AdamW(model.parameters(), lr=rate), []
    for batch in batches:
        loss = F.cross_entropy(model(batch[:, :-1]).mT, batch[:, 1:])
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(F.cross_entropy(model(batch[:, :-1]).mT, batch[:, 1:]).item())
    return losses


def _flattened(model, batches, rate):
    optimiser, losses = torch.optim.AdamW(list(model.parameters()), lr=rate), []
    for batch in batches:
        inputs, targets = batch[..., :-1], batch[..., 1:]
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        loss.backward()
        optimiser.step()
        model.zero_grad()
        losses.append(float(loss))
    return losses


def _by_hand(model, batches, rate):
    adam, losses = torch.optim.AdamW(model.parameters(), rate), []
    for text in batches:
        chances = model(text[:, :-1]).log_softmax(-1)
        loss = -chances.gather(-1, text[:, 1:, None]).mean()
        adam.zero_grad(set_to_none=False)
        loss.backward()
        adam.step()
        losses.append(loss.detach().item())
    return losses


TRAIN = Exercise(
    "train",
    title="Find the bugs: a loop whose loss falls",
    kind="bug",
    points=2,
    difficulty=3,
    minutes=8,
    tensors=True,
    reference=ref.train,
    recipe=Made(_train),
    tolerance=Tolerance(rtol=1e-5, atol=1e-6),  # the models compute in float64
    search=0.1,
    timeout_s=30.0,  # the first optimiser of a process loads much of PyTorch
    cases=(
        Case("a model that knows one character", _table),
        Case("a model that knows all characters so far", _earlier),
    ),
    hints=(
        "Take one text, *Alice*, as five numbers. Which four of them should the model read, and which four does it have to name?",
        "Adam keeps running averages of the gradients from step to step. Where must the optimiser be made, so that they survive? And what "
        "does `loss.backward()` do with the gradients of the step before?",
        "The model reads `batch[:, :-1]` and names `batch[:, 1:]`. The optimiser is made once, before the loop, and `adam.zero_grad()` comes "
        "before `loss.backward()`.",
    ),
    misconceptions=(
        Misconception(
            "draft_unchanged",
            "left all three bugs in the draft",
            "Compare what the model reads with what it has to name, and ask what is left of one step when the next one begins.",
            Instead(split=lambda batch: (batch[:, 1:], batch[:, 1:]), zero=False, fresh=True),
        ),
        Misconception(
            "not_shifted",
            "asked the model for the character that it is reading",
            "The answer at each place is the *next* character: `batch[:, 1:]`.",
            Instead(split=lambda batch: (batch[:, :-1], batch[:, :-1])),
            also=(Instead(split=lambda batch: (batch, batch)), Instead(split=lambda batch: (batch[:, 1:], batch[:, 1:]))),
        ),
        Misconception(
            "shifted_back",
            "asked the model for the character *before* the one that it reads",
            "Read `batch[:, :-1]` and ask for `batch[:, 1:]`.",
            Instead(split=lambda batch: (batch[:, 1:], batch[:, :-1])),
        ),
        Misconception(
            "last_place_only",
            "asked for the last character only",
            "The causal mask lets every place make its own guess, so use all of them. One text is n questions and not one.",
            lambda model, batches, rate: _train(loss_of=lambda logits, targets: F.cross_entropy(logits[:, -1], targets[:, -1]))(
                model, batches, rate
            ),
        ),
        Misconception(
            "gradients_pile_up",
            "never set the gradients to zero, so every step still contains the gradients of all steps before",
            "PyTorch adds to the gradients that are already there. Call `adam.zero_grad()` in each step.",
            Instead(zero=False),
        ),
        Misconception(
            "no_step",
            "never changed the model",
            "`loss.backward()` only computes gradients. Call `adam.step()` after it, and `adam.zero_grad()` before it.",
            Instead(step=False),
            also=(Instead(backward_first=False),),
        ),
        Misconception(
            "step_before_backward",
            "made the step before `loss.backward()`, so it uses the gradients of the batch before",
            "The order is `zero_grad`, `backward`, `step`.",
            _stepped_before_backward,
        ),
        Misconception(
            "measured_after_the_step",
            "measured each loss again after the step",
            "Keep the loss from which the gradients were computed. It costs no second pass through the model.",
            _measured_after_the_step,
        ),
        Misconception(
            "new_optimiser_each_step",
            "made a new optimiser in each step, which forgets Adam's running averages",
            "Make the optimiser once, before the loop.",
            Instead(fresh=True),
        ),
        Misconception(
            "softmax_twice",
            "applied a softmax before `F.cross_entropy`, which applies one itself",
            "Hand the logits over as they are.",
            Instead(loss_of=lambda logits, targets: F.cross_entropy(logits.softmax(-1).mT, targets)),
        ),
        Misconception(
            "sum_for_mean",
            "added up the losses of all guesses",
            "Take their mean, which `F.cross_entropy` does if you don't ask for anything else.",
            Instead(loss_of=lambda logits, targets: F.cross_entropy(logits.mT, targets, reduction="sum")),
        ),
        Misconception(
            "characters_on_the_wrong_axis",
            "gave `F.cross_entropy` the characters on the last axis, where it expects the places",
            "With logits (text, place, character) it wants the characters on axis 1, so write `logits.mT`, or flatten texts and places.",
            Instead(loss_of=F.cross_entropy),
            raises=True,
        ),
        Misconception(
            "sgd",
            "used plain gradient descent",
            "Use `torch.optim.AdamW`.",
            Instead(optimiser=torch.optim.SGD),
        ),
        Misconception(
            "adam_without_decay",
            "used `Adam`, which leaves out the weight decay of `AdamW`",
            "Use `torch.optim.AdamW`.",
            Instead(optimiser=torch.optim.Adam),
        ),
        Misconception(
            "rate_ignored",
            "did not use `rate`",
            "Hand it to the optimiser: `torch.optim.AdamW(model.parameters(), lr=rate)`.",
            Instead(rate_of=lambda rate: 1e-3),
        ),
        Misconception(
            "last_loss_only",
            "returned the loss of the last step",
            "Collect the losses of all steps in a list.",
            After(lambda out, **_: out[-1]),
        ),
    ),
    variants=(Variant("flattened", _flattened), Variant("by_hand", _by_hand)),
)
