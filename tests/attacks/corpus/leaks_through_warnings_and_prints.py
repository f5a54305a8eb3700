"""Prints, warns, logs, displays and notes the hidden inputs while it is probed."""

RAN = dict.fromkeys(("print", "warn", "error", "display", "stderr", "publish"), "ran NoneType")
RAN |= {"first stdout": "ran NoneType|raised ValueError|refused .*", "raise": "raised ValueError"}
FORBIDDEN = r"pwned"
ANSWERS = {
    "normalize": r"""
import logging, sys, warnings
def normalize(s):
    text = "pwn" + "ed " + repr(s.tolist())
    for call in (print, warnings.warn, logging.error, display): attack(call.__name__, call, text)
    attack("stderr", print, text, file=sys.stderr)
    try: attack("first stdout", print, text, file=sys.__stdout__, flush=True)
    except (OSError, ValueError): pass
    attack("publish", get_ipython().display_pub.publish, {"text/plain": text})
    error = ValueError(text)
    error.add_note(text)
    with attack.on("raise"): raise error from Exception(text)
"""
}
