"""The texts of a course that has nothing to do with attention: signals, in German, with complex results and its own module."""

TITLE = "Signale und Spektren"
SETTINGS = """title = "Signale und Spektren"
references = "antworten"
given = ["given"]
requires = ["numpy"]
language = "de"
demo = "02_spektrum"

[style]
enforced = true
"""
GIVEN = '''"""What the lessons are given: a signal, and what a filter does to it."""

import numpy as np


def chirp(n):
    t = np.linspace(0, 1, n)
    return np.sin(2 * np.pi * (1 + 3 * t) * t)


def attenuation(output, length):
    """A filter is judged by what it does to the fastest oscillation there is, and to a constant."""
    h = np.asarray(output, dtype=float)
    if h.shape != (length,):
        raise ValueError(f"{length} Koeffizienten werden erwartet, die Form ist {h.shape}")
    fast = np.abs(h @ (-1.0) ** np.arange(length))
    return {"removes the fast part": bool(fast < 1e-9), "keeps a constant": h.sum()}
'''
LESSON = """---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  display_name: Python 3
  language: python
  name: python3
---

# Das Spektrum

**You will learn** wie ein Signal in Schwingungen zerfällt.

```{code-cell} ipython3
:nbgrader: {grade_id: setup, locked: true}

import numpy as np
from signal_tools import chirp

from autograder import check
```

## Ein Signal als Summe

Jedes Signal ist eine Summe von Schwingungen. Wie viel von jeder darin steckt, sagt das Spektrum.

```{code-cell} ipython3
signal = chirp(16)
print(len(signal), "Werte, der größte:", signal.max().round(2))
```

### Exercise 02.1: Das Spektrum

Schreibe die diskrete Fourier-Transformation.

```{code-cell} ipython3
:nbgrader: {grade_id: spektrum, solution: true}

from antworten.spektrum import spektrum
```

```{code-cell} ipython3
:nbgrader: {grade_id: spektrum_check, grade: true}

check("spektrum")
```

### Exercise 02.2: Ein Filter

Entwirf ein Filter, das die schnellste Schwingung entfernt und eine Konstante lässt.

```{code-cell} ipython3
:nbgrader: {grade_id: entwurf, solution: true}

from antworten.spektrum import entwurf
```

```{code-cell} ipython3
:nbgrader: {grade_id: entwurf_check, grade: true}

check("entwurf")
```
"""
ANSWERS = '''"""Lesson 02."""

import numpy as np


def spektrum(x):
    """X[k] = Summe über n von x[n] exp(-2 pi i k n / N)."""
    n = len(x)
    if n == 0:
        raise ValueError("ein leeres Signal hat kein Spektrum")
    return np.exp(-2j * np.pi * np.outer(np.arange(n), np.arange(n)) / n) @ x


def entwurf(length):
    """`length` Koeffizienten."""
    h = np.zeros(length)
    h[:2] = 0.5
    return h
'''
EXERCISES = '''"""Lesson 02 spektrum."""

import numpy as np

from antworten import spektrum as ref
from autograder import Case, Exercise, Misconception, Variant


def _wrong_sign(x):
    if len(x) == 0:
        raise ValueError("leer")
    return np.conj(ref.spektrum(x))


def _no_error(x):
    return ref.spektrum(x) if len(x) else np.zeros(0)


EXERCISES = (
    Exercise(
        "spektrum",
        title="Das Spektrum",
        points=3,
        reference=ref.spektrum,
        cases=(
            Case("ein Signal", lambda draw: {"x": draw.normal(7)}),
            Case("leer", lambda draw: {"x": np.zeros(0)}, raises=ValueError),
        ),
        hints=("Eine Summe.", "Eine Matrix mal dem Signal.", "np.exp(-2j * np.pi * ...) @ x"),
        misconceptions=(
            Misconception("vorzeichen", "turned the wrong way round", "The exponent is negative.", _wrong_sign),
            Misconception("kein_fehler", "let an empty signal pass", "Raise a ValueError.", _no_error),
        ),
        variants=(Variant("fft", lambda x: np.fft.fft(x)),),
        difficulty=2,
        minutes=8,
    ),
    Exercise(
        "entwurf",
        title="Ein Filter",
        points=2,
        reference=ref.entwurf,
        behaviour="signal_tools:attenuation",
        cases=(Case("Länge", lambda draw: {"length": draw.integer(3, 9)}),),
        hints=("Zwei genügen.", "Nachbarn mitteln.", "h[:2] = 0.5"),
        misconceptions=(
            Misconception("impuls", "passed everything", "Average two neighbours.", lambda length: np.eye(length)[0]),
        ),
        variants=(Variant("woanders", lambda length: np.roll(ref.entwurf(length), 1)),),
        kind="design",
        difficulty=3,
        minutes=10,
    ),
)
'''
WRONG = "def spektrum(x):\n    if len(x) == 0:\n        raise ValueError('leer')\n    return np.conj(np.fft.fft(x))"
RIGHT = "def spektrum(x):\n    if len(x) == 0:\n        raise ValueError('leer')\n    return np.fft.fft(x)"
FILTER = "def entwurf(length):\n    return [0.25, 0.5, 0.25] + [0] * (length - 3)"
