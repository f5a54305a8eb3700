"""Prints, warns, logs, displays and notes the hidden inputs while it is probed."""

FORBIDDEN = r"pwned"
ANSWERS = {
    "normalize": r"""
import logging, sys, warnings
def normalize(s):
    text = "pwn" + "ed " + repr(s.tolist())
    print(text); print(text, file=sys.stderr); warnings.warn(text); logging.error(text); display(text)
    sys.__stdout__ and print(text, file=sys.__stdout__)
    get_ipython().display_pub.publish({"text/plain": text})
    error = ValueError(text)
    error.add_note(text)
    raise error from Exception(text)
"""
}
