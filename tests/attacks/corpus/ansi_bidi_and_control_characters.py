"""Prints terminal commands, bidirectional overrides and half characters, in text, names and messages."""

RAN = {"print": "ran NoneType", "answer": "raised O.*d", "cell": "raised O.*d"}
FORBIDDEN = "[\x00\x07\x08\x1b\u202e\u2066\ud800]"
ANSWERS = {
    "gaussian": r"""
attack("print", print, "\x1b]0;pwned\x07\x1b[2J\x1b[31mred \u202e gnp.evil \u2066 \x00\x08 \ud800")
class Odd(Exception): pass
Odd.__name__ = "O\u202ed\x1b[2Jd"
def gaussian(q, K):
    with attack.on("answer"): raise Odd("\x1b[2J\u202e\ud800")
with attack.on("cell"): raise Odd("\x1b[2J\u202e\ud800")
"""
}
