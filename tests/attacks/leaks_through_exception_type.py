"""Raises an exception class whose name is spelled from the hidden input at run time."""

FORBIDDEN = r"xm?\d+_\d{3,}"  # a drawn number has many digits; the round ones of the first case are on everybody's page
ANSWERS = {
    "gaussian": """
def gaussian(q, K):
    raise type("x" + repr(float(q[0])).replace(".", "_").replace("-", "m") + "pwned", (Exception,), {})(str(q))
"""
}
