"""An engine for exercises that tell the learner which mistake was made, and that grades without running student code
in the process that marks. The whole public API is here; it knows nothing about what is taught.

In a notebook: `from autograder import check`, then `check("normalize")`; `hint`, `status` and `solution` help on;
`bring` fetches answers of earlier lessons. To declare exercises: `Exercise`, `Case`, `Misconception`, `Variant`,
and `Prediction` for a question with choices.
Everything is imported on first use, so `import autograder` is quick and light. `__init__.pyi` says where each name is defined.
"""

import lazy_loader

__version__ = "0.2.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
