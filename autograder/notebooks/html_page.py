"""Make the project's HTML pages: Markdown, formulas as MathML, coloured code and one style sheet, without script or network."""

import functools
import html
import re
from collections.abc import Callable
from typing import Any

_MATHS = re.compile(r"(```.*?```|`[^`\n]*`)|\$\$(.+?)\$\$|(?<![\\$])\$((?:[^$\n]|\n(?!\n))+?)\$(?!\d)", re.DOTALL)
_SAFE = r"(?:https?://|mailto:|#)[\w./?=%,;@+~#-]*"
# "](" and "]:" unless a safe address alone follows; "](" becomes "] (", which is not a link
_LINK = re.compile(rf"\](?=\((?!{_SAFE}\)))|\](?=[ \t]*:(?![ \t]*{_SAFE}[ \t]*(?:\n|\Z)))")
# a fence with a word after it, which names a language: Pygments takes hours for a page of text in some languages
_FENCE = re.compile(r"(?<![`~])[`~]{3,}(?![`~])(?![ \t]*(?:python[ \t]*)?(?:\n|\Z))")
# opens a tag or a picture, or makes MathJax write HTML
_LIVE = re.compile(r"<(?=[A-Za-z/!?])|!(?=\[)|\\(?=(?:href|style|cssId|class|unicode|require|includegraphics|data)\b)")

_CSS = """
:root { color-scheme: light dark; --ink: #1f1f1f; --faint: #5f6368; --paper: #fff; --line: #d8d8d8; --code: #f5f5f5; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e6e6; --faint: #a8a8a8; --paper: #161616; --line: #444; --code: #222; } }
* { --jp-ui-font-color1: var(--ink); --jp-ui-font-color2: var(--faint); --jp-layout-color1: var(--paper);
  --jp-border-color2: var(--line); }
body { margin: 0 auto; max-width: 50rem; padding: 1rem 1.25rem 6rem; font: 1rem/1.6 system-ui, sans-serif; color: var(--ink);
  background: var(--paper); }
nav { font-size: .9rem; margin: .5rem 0 2rem; } nav a { margin-right: 1rem; }
a { color: #2a7ab9; } a.anchor-link { display: none; }
pre, code { font: .875em/1.5 ui-monospace, monospace; background: var(--code); border-radius: 3px; } code { padding: .1em .25em; }
pre { padding: .7rem .9rem; overflow-x: auto; } pre code { padding: 0; }
.output_subarea pre { white-space: pre-wrap; overflow-wrap: anywhere; } img { max-width: 100%; height: auto;
  background: #fff; border-radius: 3px; }
table { border-collapse: collapse; } th, td { border: 1px solid var(--line); padding: .25rem .6rem; text-align: left; }
math[display=block] { margin: 1rem 0; overflow-x: auto; } .prompt, .jp-InputPrompt, .jp-OutputPrompt { display: none; }
details.solution { border: 1px solid var(--line); border-radius: 4px; padding: .4rem .6rem; margin: .6rem 0; }
dl.brief { border: 1px solid var(--line); border-radius: 6px; padding: .6rem .9rem; } .brief dt { font-weight: 600; }
.brief dd { margin: 0 0 .5rem; }
details.lesson { color: var(--faint); border-left: 3px solid var(--line); padding-left: .7rem; margin: .8rem 0; }
summary { cursor: pointer; } h1, h2, h3 { line-height: 1.25; margin-top: 2.2rem; }
"""
# for a page with a student's work: nothing may run, load or send
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; font-src data:; base-uri 'none'; form-action 'none'"


def document(title: str, body: str, *, policy: str = "", language: str = "en") -> str:
    """Return a whole page. `policy` is its content security policy."""
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{html.escape(title)}</title>'
    if policy:
        head = f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">' + head
    return f'<!doctype html><html lang="{language}"><head>{head}<style>{_style()}</style></head><body>{body}</body></html>\n'


def maths_to_mathml(text: str) -> str:
    r"""Return Markdown `text` with `$…$` and `$$…$$` as MathML. Code spans and fences stay unchanged.

    >>> maths_to_mathml("`$x$` is code, $x$ is maths")[:46]
    '`$x$` is code, <math xmlns="http://www.w3.org/'
    """
    from latex2mathml.converter import convert

    def one(match: re.Match[str]) -> str:
        if match[1]:
            return match[1]
        mathml: str = convert(match[2] or match[3], display="block" if match[2] else "inline")
        return re.sub(r"([*_])", lambda m: f"&#{ord(m[1])};", mathml)  # keeps Markdown from reading emphasis

    return _MATHS.sub(one, text)


def markdown(source: str, *, trusted: bool) -> str:
    """Return Markdown as HTML with formulas.

    Unless it is `trusted`, tags become text, formulas stay TeX, and links lead only to web pages and mail addresses.
    """
    rendered: str = _renderer(trusted)(maths_to_mathml(source) if trusted else source)
    return rendered


@functools.cache
def _renderer(trusted: bool) -> Any:
    """Make mistune's renderer. nbconvert uses the same one, but importing nbconvert takes half a second."""
    import mistune

    class Renderer(mistune.HTMLRenderer):
        def block_code(self, code: str, info: str | None = None) -> str:
            """Colour Python only, because Pygments takes hours for some other languages."""
            return coloured(code) if info and info.split()[:1] == ["python"] else super().block_code(code)

        def inline_math(self, text: str) -> str:
            return html.escape(f"${text}$")

        def block_math(self, text: str) -> str:
            return f"<p>{html.escape(f'$${text}$$')}</p>"

    plugins = ["strikethrough", "table", "url", "task_lists", "def_list", "math"]
    return mistune.create_markdown(renderer=Renderer(escape=not trusted), plugins=plugins)


def prose(text: str) -> str:
    """Make a learner's Markdown harmless: no HTML, no pictures, and links only to plain web addresses.

    A space splits whatever would be live, and a dot separates a fence from any language but Python. Markdown decodes `&#106;`
    and backslashes in an address long after a filter has looked for `javascript:`. This function therefore lists what it lets
    through, not what it blocks: http, https, mailto or #, and no character that has a meaning in Markdown or HTML.

    >>> prose("a<b, <script>x</script> ![](http://example.org/x.png) [a](&#106;avascript:x) [b](https://example.org)")
    'a< b, < script>x< /script> ! [](http://example.org/x.png) [a] (&#106;avascript:x) [b](https://example.org)'
    """
    return _LINK.sub(r"\g<0> ", _LIVE.sub(r"\g<0> ", _FENCE.sub(r"\g<0>.", text)))


def coloured(source: str) -> str:
    """Return Python code as HTML, without the marker lines around a solution."""
    plain = "\n".join(line for line in source.splitlines() if not re.search("### (BEGIN|END) SOLUTION", line))
    return _highlighter()(plain).replace("\n\n", "\n&#10;")  # an empty line would end the HTML block for markdown


@functools.cache
def _highlighter() -> Callable[[str], str]:
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    return functools.partial(highlight, lexer=PythonLexer(), formatter=HtmlFormatter(cssclass="highlight"))


@functools.cache
def _style() -> str:
    from pygments.formatters import HtmlFormatter

    colours = HtmlFormatter(style="default").get_style_defs(".highlight")
    dark = f"@media (prefers-color-scheme: dark) {{ {HtmlFormatter(style='monokai').get_style_defs('.highlight')} }}"
    return f"{colours}{dark}{_CSS}"
