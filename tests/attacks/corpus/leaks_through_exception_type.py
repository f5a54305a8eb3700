"""Raises an exception class whose name is spelled from the hidden input at run time."""

RAN = {"raise": r"raised xm?\d+_\d{3,}pwned"}
FORBIDDEN = r"xm?\d+_\d{3,}"  # a drawn number has many digits; the round ones of the first case are on everybody's page
ANSWERS = {
    "gaussian": """
def gaussian(q, K):
    with attack.on("raise"):
        raise type("x" + repr(float(q[0])).replace(".", "_").replace("-", "m") + "pwned", (Exception,), {})(str(q))
"""
}
