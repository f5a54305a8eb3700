"""Figures that move with no Python behind them: sliders, steps, and a viewer of attention.

All frames are drawn once, in Python, and travel with the notebook; a few lines of plain JavaScript show one at a time. So a
figure moves in JupyterLab, in the course's book and in a saved page alike, offline. A widget library (ipywidgets, anywidget)
would need a kernel in the one, and its own scripts from a network in the other. Without scripts (on GitHub, on paper) the
first frame stands there as an image, with its description.

Everything is operated by native controls, so a keyboard is enough: arrow keys move a slider, Tab goes from word to word.
JupyterLab has shortcuts of its own for these keys, and leaves them to an element that itself has
`data-lm-suppress-shortcuts`; on one around it that comes too late, since the element with the focus is asked first. While Ctrl,
Alt or Cmd is held the mark is taken away, so that Ctrl+S still saves the notebook.
"""

import base64
import hashlib
import html
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from attention_course.drawing import Drawing
from attention_course.drawing.canvas import WIDEST
from attention_course.drawing.lettering import width

MOST_FRAMES = 200
_MARK = "data-lm-suppress-shortcuts"
_KEYS = f'{_MARK}="true"'


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
            f'<div class="ac-moving" data-moving="{name}" role="group" '
            f'aria-label="{html.escape(self.alt, quote=True)}">'
            f'<style>{_STYLE}</style><div class="ac-stage" {_KEYS}>{self._still}</div>{self._body}'
            f'<script type="application/json">{text}</script>'
            f"<script>(()=>{{for(const root of document.querySelectorAll('[data-moving=\"{name}\"]:not([data-ready])')){{"
            "root.dataset.ready='';const data=JSON.parse(root.querySelector('script[type=\"application/json\"]').textContent);"
            "const stage=root.querySelector('.ac-stage');const one=s=>root.querySelector(s),all=s=>[...root.querySelectorAll(s)];"
            f"const keyed=all('[{_MARK}]');"
            "for(const e of ['keydown','keyup','focusin'])root.addEventListener(e,v=>keyed.forEach(k=>"
            f"k.toggleAttribute('{_MARK}',!(v.ctrlKey||v.altKey||v.metaKey))));"
            "const reach=()=>{const drawn=stage.querySelector('svg:not(.plot)'),wide=drawn?+drawn.getAttribute('width'):0,room=stage.clientWidth;"
            "stage.classList.toggle('ac-whole',.75*wide>room&&.72*wide<=room);"
            "if(stage.scrollWidth>stage.clientWidth+1)stage.tabIndex=0;else stage.removeAttribute('tabindex')};"
            f"root.querySelector('.ac-controls').hidden=false;{self._script}new ResizeObserver(reach).observe(stage);}}}})()</script></div>"
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
            f'<label><span>{label}</span><input {_KEYS} type="range" min="0" max="{len(given) - 1}" value="{at[name]}" step="1" '
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
        f'<button {_KEYS} type="button" class="ac-back" disabled>back</button> <button {_KEYS} type="button" class="ac-next">next</button> '
        f'<span class="ac-count">1 of {len(frames)}</span></div>'
    )
    return Moving(alt, _image(drawn[0], alt), controls, data, _STEPS)


def attention_viewer(tokens: Sequence[str], weights: Mapping[str, Any], *, alt: str, start: int = -1) -> Moving:
    """Words that show where they look: hover, focus or tap one, and every head answers. `weights` holds, by a head's name,
    rows of (query, key).

    A value of shape (heads, n, n) stands for several heads, numbered. `start` is the word that is chosen at first.
    Raises ValueError where the weights do not fit the words.
    """
    heads: dict[str, list[list[float]]] = {}
    words = [word.strip() or "␣" for word in tokens]
    n = len(words)
    for name, given in weights.items():
        array = np.asarray(given, dtype=float)
        several = array if array.ndim == 3 else array[None]
        if several.shape[1:] != (n, n):
            raise ValueError(f"{name}: expected weights of shape ({n}, {n}), one row a word, got {array.shape}.")
        for number, one in enumerate(several):
            heads[name if array.ndim == 2 else f"{name} {number}"] = [[round(float(x), 4) for x in row] for row in one]
    if not heads:
        raise ValueError("expected the weights of at least one head, got none.")
    chosen = start % n
    buttons = "".join(
        f'<button {_KEYS} type="button" class="ac-word" aria-pressed="{"true" if i == chosen else "false"}">{html.escape(word)}</button>'
        for i, word in enumerate(words)
    )
    line = "".join(f'<span class="ac-at">{html.escape(word)}<small></small></span>' for word in words)
    answers = "".join(
        f'<div class="ac-head"><div class="ac-name">{html.escape(name)}</div>{_map(rows)}'
        f'<div class="ac-line" aria-hidden="true"><svg class="ac-arcs"></svg>{line}</div></div>'
        for name, rows in heads.items()
    )
    controls = (
        f'<div class="ac-controls" hidden><div class="ac-words" role="group" aria-label="where does this word look?">{buttons}</div>'
        f'{answers}<p class="ac-caption" aria-live="polite"></p></div>'
    )
    data = {"tokens": words, "names": list(heads), "heads": list(heads.values()), "at": chosen}
    return Moving(alt, _image(_looking(words, heads, chosen, alt).svg(), alt), controls, data, _VIEWER)


def _map(rows: Sequence[Sequence[float]]) -> str:
    """All weights of a head as a small picture: a row for each word that looks, a column for each that is looked at."""
    n = len(rows)
    shades = "".join(
        f'<rect x="{j}" y="{i}" width="1" height="1" fill-opacity="{min(1.0, weight):.2f}"/>'
        for i, row in enumerate(rows)
        for j, weight in enumerate(row)
        if weight >= 0.03
    )
    return (
        f'<svg class="ac-map" viewBox="0 0 {n} {n}" aria-hidden="true">{shades}'
        f'<rect class="ac-row" width="{n}" height="1" vector-effect="non-scaling-stroke"/></svg>'
    )


def _looking(words: Sequence[str], heads: Mapping[str, Sequence[Sequence[float]]], chosen: int, alt: str) -> Drawing:
    """The first frame: for each head the words, and where the chosen one looks, as far as one line holds it."""
    first, last = (0, len(words)) if len(words) <= 14 else (max(0, chosen - 13), chosen + 1)
    names = max(width(name, 14) for name in heads)
    while last - first > 1 and names + sum(width(word) + 20 for word in words[first:last]) > WIDEST - 60:
        first, last = (first + 1, last) if first < chosen else (first, last - 1)
    d = Drawing(alt=alt)
    above: Any = None
    for name, rows in heads.items():
        place = {} if above is None else {"below": above, "align": "start"}
        boxes = d.tokens(words[first:last], away=72, strong=[chosen - first], **place)
        d.looks(boxes, chosen - first, boxes, list(rows[chosen][first:last]), least=0.05)
        d.text(name, bold=True, size=14, left_of=boxes[0], gap=16)
        above = boxes[0]
    return d


def _frame(drawn: Any, alt: str) -> str:
    """A frame as a part of a page: SVG text, or an image of a matplotlib figure."""
    if isinstance(drawn, str):
        return drawn
    if hasattr(drawn, "svg"):
        return str(drawn.svg())
    if hasattr(drawn, "savefig"):
        import matplotlib.pyplot as plt

        from attention_course.plot_svg import plot_svg

        made = plot_svg(drawn, alt)
        plt.close(drawn)
        return made
    raise ValueError(f"expected a frame to be a Drawing, SVG text or a matplotlib figure, got {type(drawn).__name__}.")


def _image(frame: str, alt: str) -> str:
    """A frame as an image, which also pages show that throw SVG and scripts out."""
    if frame.startswith("<img"):
        return frame
    text = frame if "xmlns=" in frame.split(">", 1)[0] else frame.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    data = base64.b64encode(text.encode()).decode()
    return f'<img alt="{html.escape(alt, quote=True)}" src="data:image/svg+xml;base64,{data}" style="max-width:100%">'


def _packed(frames: Sequence[str]) -> dict[str, Any]:
    """Frames are nearly alike: each line is kept once; a frame is a list of runs, (first line, how many)."""
    pieces: dict[str, int] = {}
    made = []
    for frame in frames:
        runs: list[int] = []
        for line in frame.splitlines(keepends=True):
            at = pieces.setdefault(line, len(pieces))
            if runs and at == runs[-2] + runs[-1]:
                runs[-1] += 1
            else:
                runs += [at, 1]
        made.append(runs)
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
    ".ac-moving .ac-word{line-height:1.25}.ac-moving .ac-word[aria-pressed=true]{outline:3px solid #d55e00;outline-offset:1px}"
    ".ac-moving .ac-head{display:flex;flex-wrap:wrap;align-items:flex-end;gap:.1em .8em;margin:.3em 0}"
    ".ac-moving .ac-name{flex:0 0 9.5em;font-weight:600;line-height:1.25;padding-bottom:1em}.ac-moving .ac-line{position:relative}"
    ".ac-moving .ac-map{flex:none;width:52px;height:52px;border:1px solid #8888;fill:#2b8ac6;shape-rendering:crispEdges;cursor:crosshair}"
    ".ac-moving .ac-map .ac-row{fill:none;stroke:#d55e00;stroke-width:2px}"
    ".ac-moving .ac-arcs{position:absolute;inset:0;width:100%;height:100%;overflow:visible;pointer-events:none;fill:none;stroke:#2b8ac6}"
    ".ac-moving .ac-at{display:inline-flex;flex-direction:column;align-items:center;line-height:1.25;margin:26px 2px 0 0;"
    "padding:.1em .4em;border-radius:5px;cursor:pointer}.ac-moving .ac-at.ac-chosen{outline:2px solid #d55e00;outline-offset:-2px}"
    ".ac-moving .ac-at small{font-size:.75em;min-height:1.25em;font-variant-numeric:tabular-nums;opacity:1}"
    "@media screen and (max-width:600px){.ac-moving .ac-head{align-items:center}.ac-moving .ac-name{flex-basis:auto;padding:0}.ac-moving .ac-line{flex-basis:100%}"
    ".ac-moving .ac-map{width:36px;height:36px}.ac-moving .ac-at{font-size:13px;padding:.1em .2em;margin-right:1px}}"
    ".ac-moving.ac-live>.ac-stage{display:none}"
    "@media screen and (max-width:46em){.ac-moving .ac-stage>svg{max-width:none!important;zoom:.75}"
    ".ac-moving .ac-stage.ac-whole>svg{max-width:100%!important;zoom:1}"  # not much wider than a phone: shown whole
    ".ac-moving .ac-stage>svg[style*='--wide']{width:var(--wide)}.ac-moving .ac-stage>svg.plot{zoom:.85}.ac-moving .ac-controls label span{flex-basis:100%}"
    ".ac-moving .ac-controls label{gap:.2em .7em}.ac-moving input[type=range]{flex:1 1 9em}"
    ".ac-moving .ac-stage[tabindex]::before{content:'more to the right: scroll →';position:sticky;left:0;display:block;"
    "font-size:.8em;opacity:.75}"
    ".ac-moving .ac-stage>img[width]{max-width:none!important;zoom:.7}}"
    "@media print{.ac-moving .ac-controls{display:none}.ac-moving.ac-live>.ac-stage{display:block}}"
)
_FRAME = "const frame=k=>{let t='';const r=data.frames[k];for(let i=0;i<r.length;i+=2)t+=data.pieces.slice(r[i],r[i]+r[i+1]).join('');return t};"
_SLIDER = (
    f"{_FRAME}"
    "const inputs=all('input'),outs=all('output');const show=()=>{let k=0;inputs.forEach((x,i)=>{k=k*data.values[i].length+ +x.value;"
    "const v=data.values[i][x.value];outs[i].textContent=v;x.setAttribute('aria-valuetext',v)});"
    "stage.innerHTML=frame(k)};inputs.forEach(x=>x.addEventListener('input',show));show();"
)
_STEPS = (
    f"{_FRAME}"
    "let k=0;const back=one('.ac-back'),next=one('.ac-next');const show=()=>{stage.innerHTML=frame(k);"
    "one('.ac-caption').textContent=data.captions[k];one('.ac-count').textContent=(k+1)+' of '+data.frames.length;"
    "back.disabled=k==0;next.disabled=k==data.frames.length-1};back.addEventListener('click',()=>{k--;show()});"
    "next.addEventListener('click',()=>{k++;show()});show();"
)
_VIEWER = (
    "root.classList.add('ac-live');let at=data.at;const words=all('.ac-word'),heads=all('.ac-head').map(h=>({spans:[...h.querySelectorAll('.ac-at')],"
    "arcs:h.querySelector('.ac-arcs'),map:h.querySelector('.ac-map'),mark:h.querySelector('.ac-row')}));"
    "const show=()=>{words.forEach((w,j)=>w.setAttribute('aria-pressed',j==at));const says=heads.map((h,k)=>{const row=data.heads[k][at];let arcs='';"
    "const from=h.spans[at],mid=s=>s.offsetLeft+s.offsetWidth/2;h.mark.setAttribute('y',at);h.spans.forEach((s,j)=>{const x=row[j];"
    "s.style.background='rgba(43,138,198,'+(.5*x).toFixed(3)+')';s.classList.toggle('ac-chosen',j==at);"
    "s.lastChild.textContent=x>=.005?x.toFixed(2):'';if(x>=.05&&j!=at&&s.offsetTop==from.offsetTop){const a=mid(from),b=mid(s),y=s.offsetTop;"
    "arcs+='<path stroke-width=\"'+(1+5*x).toFixed(1)+'\" d=\"M'+a+' '+y+'Q'+(a+b)/2+' '+(y-Math.min(44,16+Math.abs(a-b)/6))+' '+b+' '+y+'\"/>'}});"
    "h.arcs.innerHTML=arcs;const best=row.indexOf(Math.max(...row)),rest=1-row.reduce((a,b)=>a+b,0);"
    "return (rest>row[best]&&row[best]>0?'words not shown '+rest.toFixed(2):'“'+data.tokens[best]+'” '+row[best].toFixed(2))"
    "+' ('+data.names[k]+')'});"
    "one('.ac-caption').textContent='“'+data.tokens[at]+'” looks most at '+says.join(', ')+'.'};const go=j=>{if(j!=at){at=j;show()}};"
    "words.forEach((w,j)=>{for(const e of ['mouseenter','focus','click'])w.addEventListener(e,()=>go(j))});"
    "heads.forEach(h=>{h.spans.forEach((s,j)=>{for(const e of ['mouseenter','click'])s.addEventListener(e,()=>go(j))});"
    "for(const e of ['mousemove','click'])h.map.addEventListener(e,v=>{const box=h.map.getBoundingClientRect();"
    "go(Math.max(0,Math.min(words.length-1,Math.floor((v.clientY-box.top)/box.height*words.length))))})});"
    "show();new ResizeObserver(show).observe(root);"
)
