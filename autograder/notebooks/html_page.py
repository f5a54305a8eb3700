"""What the pages of the project share: formulas as MathML, coloured code, and one style sheet. No script, no network."""

import functools
import html
import re
from collections.abc import Callable

_MATHS = re.compile(r"(```.*?```|`[^`\n]*`)|\$\$(.+?)\$\$|(?<![\\$])\$((?:[^$\n]|\n(?!\n))+?)\$(?!\d)", re.DOTALL)
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
summary { cursor: pointer; } h1, h2, h3 { line-height: 1.25; margin-top: 2.2rem; }
"""
# of a page with a student's work on it: nothing may run, load or send
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; font-src data:; base-uri 'none'; form-action 'none'"


def document(title: str, body: str, *, policy: str = "", language: str = "en") -> str:
    """A whole page; `policy` is its content security policy."""
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{html.escape(title)}</title>'
    if policy:
        head = f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">' + head
    return f'<!doctype html><html lang="{language}"><head>{head}<style>{_style()}</style></head><body>{body}</body></html>\n'


def maths_to_mathml(text: str) -> str:
    r"""Markdown `text` with `$…$` and `$$…$$` as MathML; code spans and fences are left alone.

    >>> maths_to_mathml("`$x$` is code, $x$ is maths")[:46]
    '`$x$` is code, <math xmlns="http://www.w3.org/'
    """
    from latex2mathml.converter import convert

    def one(match: re.Match[str]) -> str:
        if match[1]:
            return match[1]
        made: str = convert(match[2] or match[3], display="block" if match[2] else "inline")
        return re.sub(r"([*_])", lambda m: f"&#{ord(m[1])};", made)  # or markdown would read emphasis into it

    return _MATHS.sub(one, text)


def coloured(source: str) -> str:
    """Python code as HTML, without the marks round a solution."""
    plain = "\n".join(line for line in source.splitlines() if "### BEGIN SOLUTION" not in line and "### END SOLUTION" not in line)
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
