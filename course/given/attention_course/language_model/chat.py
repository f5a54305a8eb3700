"""Talk with the model: an answer token by token, printed or in a small panel with the speed beside it."""

import html
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from attention_course.language_model.tokens import END, chat

Decode = Callable[[list[int]], str]


def answer_ids(decoder: Any, tokenizer: Any, question: str, n: int, *, use_cache: bool = True) -> Iterator[int]:
    """The likeliest answer of `decoder` to a question, one token after another, at most `n`; it ends where the model ends it.

    `decoder` has `prefill(ids, chunk)` and `extend(ids)`, and room for question and answer. Without the cache, the whole text is
    put through the model again for each token.
    """
    weights = getattr(decoder, "weights", {})  # a decoder's tokens live beside its weights
    where = weights["embed"].device if "embed" in weights else None
    ids = torch.tensor([tokenizer.encode(chat(question)).ids], device=where)
    end = tokenizer.token_to_id(END)
    with torch.inference_mode():
        logits = decoder.prefill(ids, ids.shape[1])
    for _ in range(n):
        token = logits.argmax(-1, keepdim=True)  # (1, 1)
        if token.item() == end:
            return
        yield int(token.item())
        ids = torch.cat([ids, token], dim=1)
        with torch.inference_mode():  # not around the yield: it would last while others run
            logits = decoder.extend(token)[:, -1] if use_cache else decoder.prefill(ids, ids.shape[1])


def pieces(ids: Iterator[int], decode: Decode) -> Iterator[str]:
    """The text of a stream of tokens, as it grows. A character of several tokens comes out once it is whole.

    >>> list(pieces(iter([0, 1, 2]), lambda ids: ["c", "ca\\ufffd", "café"][len(ids) - 1]))
    ['c', 'afé']
    """
    done: list[int] = []
    shown = ""
    for token in ids:
        done.append(token)
        text = decode(done)
        if not text.endswith("\ufffd"):
            yield text[len(shown) :]
            shown = text


def say(decoder: Any, tokenizer: Any, question: str, n: int = 60) -> None:
    """Print the answer as it comes. Interrupt it when you have read enough."""
    try:
        for piece in pieces(answer_ids(decoder, tokenizer, question, n), tokenizer.decode):
            print(piece, end="", flush=True)
    except KeyboardInterrupt:
        print(" … interrupted", end="")
    print()


class Chat:
    """A panel: a question, with or without the cache, the answer as it comes, tokens per second. `widget` shows it.

    The answer is made in a thread, so that the notebook stays alive and the stop button works.
    """

    def __init__(self, decoder: Any, tokenizer: Any, *, n: int = 120, question: str = "Why is the sky blue?") -> None:
        import ipywidgets as w

        self.decoder, self.tokenizer, self.n = decoder, tokenizer, n
        self.question = w.Text(value=question, layout=w.Layout(width="60%"), description="You:")
        self.cached = w.Checkbox(value=True, description="with the cache", indent=False, layout=w.Layout(width="9em"))
        self.ask, self.stop = w.Button(description="Ask", button_style="primary"), w.Button(description="Stop", disabled=True)
        self.answer, self.speed = w.HTML(), w.HTML()
        self.widget = w.VBox([w.HBox([self.question, self.cached]), w.HBox([self.ask, self.stop, self.speed]), self.answer])
        self._stopped, self._thread = threading.Event(), threading.Thread()
        self.ask.on_click(lambda _: self.start())
        self.stop.on_click(lambda _: self._stopped.set())

    def start(self) -> None:
        """Answer the question, unless an answer is under way."""
        if self._thread.is_alive():
            return
        self._stopped.clear()
        self.ask.disabled, self.stop.disabled = True, False
        self._thread = threading.Thread(target=self._answer, daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> None:
        """Wait until the answer is complete, at most so long."""
        self._thread.join(seconds)

    def _answer(self) -> None:
        try:
            self._stream()
        except Exception as error:  # a thread's own report would be lost, or land in another cell
            self.speed.value = html.escape(f"{type(error).__name__}: {error}")
        finally:
            self.ask.disabled, self.stop.disabled = False, True

    def _stream(self) -> None:
        text, how = "", "with" if self.cached.value else "without"
        self.answer.value, self.speed.value = "", "reading the question …"
        ids = self._counted(answer_ids(self.decoder, self.tokenizer, self.question.value, self.n, use_cache=self.cached.value))
        for piece in pieces(ids, self.tokenizer.decode):
            text += piece
            rate = self._count / (time.perf_counter() - self._began)
            self.answer.value = f"<p style='white-space: pre-wrap; max-width: 60em'>{html.escape(text)}</p>"
            self.speed.value = f"{self._count} tokens, {rate:.1f} per second {how} the cache"
            if self._stopped.is_set():
                self.speed.value += " · stopped"
                return
        self.speed.value += " · done"

    def _counted(self, ids: Iterator[int]) -> Iterator[int]:
        self._count, self._began = 0, time.perf_counter()
        for token in ids:
            self._count += 1
            yield token
