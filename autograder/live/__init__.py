"""Build the live book, in which Python in a Web Worker checks a reader's answers in the page, without a server.

In: the pages of `attn book`, the released notebooks and packs, a copy of Pyodide. Out: a folder that any web server can
serve. `session` and `needed_cells` run in the browser and use only the standard library and the engine; `static/` holds the
page's scripts.
"""
