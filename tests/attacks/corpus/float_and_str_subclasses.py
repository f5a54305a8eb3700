"""Returns float, str and list subclasses whose comparisons and reprs lie, and sets a prediction to such a str."""

RAN = {"word": "ran Word", "row": "ran Row"}
ANSWERS = {
    "predict_empty": """
class Word(str):
    __eq__ = lambda *_: True
    __hash__ = lambda _: hash("a")
    __repr__ = __str__ = lambda _: "a"
predict_empty = attack("word", Word, "none of them")
""",
    "normalize": """
class Number(float):
    __eq__ = __le__ = __ge__ = lambda *_: True
class Row(list):
    __len__ = lambda self: 3
    __iter__ = lambda self: iter([Number(1)] * 3)
def normalize(s): return attack("row", lambda: Row([Number(1)]))
""",
}
