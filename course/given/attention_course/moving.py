"""Figures that move with no Python behind them: sliders, steps, and a viewer of attention.

All frames are drawn once, in Python, and travel with the notebook; a few lines of plain JavaScript show one at a time. So a
figure moves in JupyterLab, in the course's book and in a saved page alike, offline. A widget library (ipywidgets, anywidget)
would need a kernel in the one, and its own scripts from a network in the other. Without scripts (on GitHub, on paper) the
first frame stands there as an image, with its description.

Everything is operated by native controls, so a keyboard is enough: arrow keys move a slider, Tab goes from word to word.
"""

import base64
import hashlib
import html
import io
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from attention_course.drawing import Drawing

MOST_FRAMES = 200


class Moving:
    """A figure that moves: shown by Jupyter as HTML, where scripts are not run as its first frame."""

    def __init__(self, alt: str, still: str, body: str, data: Mapping[str, Any], script: str):
        if not isinstance(alt, str) or len(alt.split()) < 3:
            raise ValueError(f"alt: expected a sentence that says what the figure shows, got {alt!r}.")
        self.alt = " ".join(alt.split())
        self._still, self._body, self._data, self._script = still, body, data, script

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self.html(), "text/plain": f"Figure that moves. {self.alt}"}

    def html(self) -> str:
        """The figure as a part of a page: no network, no ids, so that it may stand there twice."""
        text = json.dumps(self._data, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
        name = hashlib.sha256((self.alt + self._body + text).encode()).hexdigest()[:12]
        return (
            f'<div class="ac-moving" data-moving="{name}" role="group" aria-label="{html.escape(self.alt, quote=True)}">'
            f'<style>{_STYLE}</style><div class="ac-stage">{self._still}</div>{self._body}'
            f'<script type="application/json">{text}</script>'
            f"<script>(()=>{{for(const root of document.querySelectorAll('[data-moving=\"{name}\"]:not([data-ready])')){{"
            "root.dataset.ready='';const data=JSON.parse(root.querySelector('script[type=\"application/json\"]').textContent);"
            "const stage=root.querySelector('.ac-stage');const one=s=>root.querySelector(s),all=s=>[...root.querySelectorAll(s)];"
            f"root.querySelector('.ac-controls').hidden=false;{self._script}}}}})()</script></div>"
        )


def slider(
    draw: Callable[..., Any],
    *,
    alt: str,
    start: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
    **values: Sequence[Any],
) -> Moving:
    """A figure with a slider for each keyword in `values`, one or two; `draw(angle=15)` returns the frame of that value.

    A frame is a `Drawing`, SVG text, or a matplotlib figure. Raises ValueError for more than 200 frames, or no values.

    >>> slider(lambda n: Drawing(alt="a row of n cells") and _row(n), n=[1, 2, 3], alt="A row that grows cell by cell.").alt
    'A row that grows cell by cell.'
    """
    if not 1 <= len(values) <= 2:
        raise ValueError(f"expected one or two sliders, such as angle=[0, 15, 30], got {len(values)}.")
    options = {name: list(given) for name, given in values.items()}
    count = int(np.prod([len(given) for given in options.values()]))
    if not 0 < count <= MOST_FRAMES:
        raise ValueError(f"expected 1 to {MOST_FRAMES} frames in all, got {count}. Take fewer values.")
    at = {name: given.index((start or {}).get(name, given[0])) for name, given in options.items()}
    frames = [_frame(draw(**dict(zip(options, chosen, strict=True))), alt) for chosen in itertools.product(*options.values())]
    first = 0
    for name, given in options.items():
        first = first * len(given) + at[name]
    rows = []
    for name, given in options.items():
        label = html.escape((labels or {}).get(name, name), quote=True)
        rows.append(
            f'<label><span>{label}</span><input type="range" min="0" max="{len(given) - 1}" value="{at[name]}" step="1" '
            f'aria-label="{label}"><output>{html.escape(_shown(given[at[name]]))}</output></label>'
        )
    data = {"values": [[_shown(v) for v in given] for given in options.values()], **_packed(frames)}
    controls = f'<div class="ac-controls" hidden>{"".join(rows)}</div>'
    return Moving(alt, _image(frames[first], alt), controls, data, _SLIDER)


def steps(frames: Sequence[tuple[str, Any]], *, alt: str) -> Moving:
    """A drawing that is built up step by step: `(caption, drawing)` for each, with buttons to go back and on."""
    if len(frames) < 2:
        raise ValueError(f"expected at least two steps, got {len(frames)}.")
    drawn = [_frame(drawing, alt) for _, drawing in frames]
    data = {"captions": [caption for caption, _ in frames], **_packed(drawn)}
    controls = (
        f'<p class="ac-caption" aria-live="polite">{html.escape(frames[0][0])}</p><div class="ac-controls" hidden>'
        '<button type="button" class="ac-back" disabled>back</button> <button type="button" class="ac-next">next</button> '
        f'<span class="ac-count">1 of {len(frames)}</span></div>'
    )
    return Moving(alt, _image(drawn[0], alt), controls, data, _STEPS)


def attention_viewer(tokens: Sequence[str], weights: Mapping[str, Any], *, alt: str, start: int = -1) -> Moving:
    """Words that show where they look: hover, focus or tap one. `weights` holds, by a head's name, rows of (query, key).

    A value of shape (heads, n, n) stands for several heads, numbered. `start` is the word that is chosen at first.
    Raises ValueError where the weights do not fit the words.
    """
    heads: dict[str, list[list[float]]] = {}
    n = len(tokens)
    for name, given in weights.items():
        array = np.asarray(given, dtype=float)
        several = array if array.ndim == 3 else array[None]
        if several.shape[1:] != (n, n):
            raise ValueError(f"{name}: expected weights of shape ({n}, {n}), one row a word, got {array.shape}.")
        for number, one in enumerate(several):
            heads[name if array.ndim == 2 else f"{name} {number}"] = [[round(float(x), 3) for x in row] for row in one]
    if not heads:
        raise ValueError("expected the weights of at least one head, got none.")
    chosen = start % n
    still = _looking(tokens, next(iter(heads.values()))[chosen], chosen, alt)
    words = "".join(
        f'<button type="button" class="ac-word" aria-pressed="{"true" if i == chosen else "false"}">'
        f"{html.escape(word.strip() or '␣')}<small></small></button>"
        for i, word in enumerate(tokens)
    )
    options = "".join(f"<option>{html.escape(name)}</option>" for name in heads)
    controls = (
        f'<div class="ac-controls" hidden><label><span>head</span><select aria-label="head">{options}</select></label>'
        f'<div class="ac-words">{words}</div><p class="ac-caption" aria-live="polite"></p></div>'
    )
    data = {"tokens": [word.strip() or "␣" for word in tokens], "heads": list(heads.values()), "at": chosen}
    return Moving(alt, _image(still.svg(), alt), controls, data, _VIEWER)


def _looking(tokens: Sequence[str], row: Sequence[float], chosen: int, alt: str) -> Drawing:
    """The first frame: the words in lines, and where the chosen one looks, as far as one line holds it."""
    first, last = (0, len(tokens)) if len(tokens) <= 14 else (max(0, chosen - 13), chosen + 1)
    d = Drawing(alt=alt)
    boxes = d.tokens([word.strip() or "␣" for word in tokens[first:last]])
    d.looks(boxes, chosen - first, boxes, list(row[first:last]))
    return d


def _frame(drawn: Any, alt: str) -> str:
    """A frame as a part of a page: SVG text, or an image of a matplotlib figure."""
    if isinstance(drawn, str):
        return drawn
    if hasattr(drawn, "svg"):
        return str(drawn.svg())
    if hasattr(drawn, "savefig"):
        import matplotlib.pyplot as plt

        with io.BytesIO() as file:
            drawn.savefig(file, format="png", dpi=144, facecolor="white", metadata={"Software": None})
            data = base64.b64encode(file.getvalue()).decode()
        width = round(96 * float(drawn.get_size_inches()[0]))
        plt.close(drawn)
        return f'<img width="{width}" alt="{html.escape(alt, quote=True)}" src="data:image/png;base64,{data}">'
    raise ValueError(f"expected a frame to be a Drawing, SVG text or a matplotlib figure, got {type(drawn).__name__}.")


def _image(frame: str, alt: str) -> str:
    """A frame as an image, which also pages show that throw SVG and scripts out."""
    if frame.startswith("<img"):
        return frame
    text = frame if "xmlns=" in frame.split(">", 1)[0] else frame.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    data = base64.b64encode(text.encode()).decode()
    return f'<img alt="{html.escape(alt, quote=True)}" src="data:image/svg+xml;base64,{data}" style="max-width:100%">'


def _packed(frames: Sequence[str]) -> dict[str, Any]:
    """Frames are nearly alike: each piece is kept once, and a frame is a list of pieces."""
    pieces: dict[str, int] = {}
    made = []
    for frame in frames:
        parts = [part + ">" for part in frame.split(">")[:-1]] + ([frame.rsplit(">", 1)[1]] if frame.rsplit(">", 1)[1] else [])
        made.append([pieces.setdefault(part, len(pieces)) for part in parts])
    return {"pieces": list(pieces), "frames": made}


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _row(n: int) -> Drawing:
    d = Drawing(alt=f"a row of {n} cells")
    d.vector(n, "x", role="input")
    return d


_STYLE = (
    ".ac-moving{max-width:100%;margin:.5em 0}.ac-moving .ac-stage{overflow-x:auto}.ac-moving .ac-stage img{max-width:100%;height:auto}"
    ".ac-moving .ac-controls label{display:flex;flex-wrap:wrap;gap:.7em;align-items:center;margin:.3em 0}"
    ".ac-moving input[type=range]{flex:0 1 20em;min-width:9em;accent-color:#0072b2;height:1.6em}"
    ".ac-moving output{min-width:4em;font-variant-numeric:tabular-nums}.ac-moving .ac-caption{margin:.4em 0;min-height:1.4em}"
    ".ac-moving button{font:inherit;color:inherit;background:transparent;border:1px solid currentColor;border-radius:6px;"
    "padding:.2em .6em;margin:.15em;cursor:pointer}.ac-moving button:disabled{opacity:.45;cursor:default}"
    ".ac-moving .ac-word{display:inline-flex;flex-direction:column;align-items:center;line-height:1.25}"
    ".ac-moving .ac-word small{font-size:.75em;min-height:1.25em;font-variant-numeric:tabular-nums}"
    ".ac-moving .ac-word[aria-pressed=true]{outline:3px solid #d55e00;outline-offset:1px}"
    ".ac-moving select{font:inherit;max-width:100%}@media print{.ac-moving .ac-controls{display:none}}"
)
_SLIDER = (
    "const inputs=all('input'),outs=all('output');const show=()=>{let k=0;inputs.forEach((x,i)=>{k=k*data.values[i].length+ +x.value;"
    "const v=data.values[i][x.value];outs[i].textContent=v;x.setAttribute('aria-valuetext',v)});"
    "stage.innerHTML=data.frames[k].map(p=>data.pieces[p]).join('')};inputs.forEach(x=>x.addEventListener('input',show));show();"
)
_STEPS = (
    "let k=0;const back=one('.ac-back'),next=one('.ac-next');const show=()=>{stage.innerHTML=data.frames[k].map(p=>data.pieces[p]).join('');"
    "one('.ac-caption').textContent=data.captions[k];one('.ac-count').textContent=(k+1)+' of '+data.frames.length;"
    "back.disabled=k==0;next.disabled=k==data.frames.length-1};back.addEventListener('click',()=>{k--;show()});"
    "next.addEventListener('click',()=>{k++;show()});show();"
)
_VIEWER = (
    "stage.hidden=true;let at=data.at;const words=all('.ac-word'),pick=one('select');const show=()=>{const row=data.heads[pick.selectedIndex][at];"
    "words.forEach((w,j)=>{const x=row[j];w.style.background='rgba(0,114,178,'+(.75*x).toFixed(3)+')';"
    "w.querySelector('small').textContent=x>=.005?x.toFixed(2).replace(/^0/,''):'';w.setAttribute('aria-pressed',j==at)});"
    "const best=row.map((x,j)=>[x,j]).sort((a,b)=>b[0]-a[0]).filter(p=>p[0]>=.05).slice(0,3);"
    "one('.ac-caption').textContent='“'+data.tokens[at]+'” looks at '+best.map(p=>'“'+data.tokens[p[1]]+'” '+p[0].toFixed(2)).join(', ')+'.'};"
    "words.forEach((w,j)=>{const go=()=>{at=j;show()};w.addEventListener('mouseenter',go);w.addEventListener('focus',go);"
    "w.addEventListener('click',go)});pick.addEventListener('change',show);show();"
)
