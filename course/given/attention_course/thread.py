"""The sentence that runs through lessons 01 to 06, and one vector of two numbers for each of its words.

*she ate the ripe pear because it was sweet*. The word to watch is **it**: in this sentence it is the pear, and the vector of
*it* alone does not say so.

The vectors are made by hand, so that one can work with them on paper; nothing learned them. What the two numbers mean:

- axis 0: from a person (-2) over neither (0) to a thing (2);
- axis 1: from what does something (2) over neither (0) to what is done to, or describes a thing (-2).

>>> VECTORS[INDEX["pear"]]
array([ 2., -1.])
>>> dict(zip(TOKENS, (VECTORS @ VECTORS[INDEX["it"]]).tolist()))["pear"]  # the largest of the nine; she has -2.0
2.0
"""

import numpy as np

TOKENS = ("she", "ate", "the", "ripe", "pear", "because", "it", "was", "sweet")

VECTORS = np.array(
    [
        [-2.0, 1.0],  # she: a person, who acts
        [0.0, 2.0],  # ate: what is done
        [0.5, 0.0],  # the: a thing is about to be named
        [1.0, -1.0],  # ripe: describes a thing
        [2.0, -1.0],  # pear: a thing, to which something is done
        [0.0, 0.5],  # because: neither
        [1.0, 0.0],  # it: some thing; which one, the word does not say
        [0.0, 1.0],  # was
        [1.0, -2.0],  # sweet: describes a thing
    ]
)
VECTORS.setflags(write=False)

INDEX = {word: i for i, word in enumerate(TOKENS)}


def _like_the_thread(words: str, *vectors: tuple[float, float]) -> tuple[tuple[str, ...], np.ndarray]:
    """Words and vectors of a sentence like the thread's. `vectors`: who, the verb, an adjective, the thing, an adjective."""
    X = VECTORS.copy()
    X[[0, 1, 3, 4, 8]] = vectors
    X.setflags(write=False)
    return tuple(words.split()), X


THREE_SENTENCES = (  # the thing that *it* stands for is word `THING` of each
    (TOKENS, VECTORS),
    _like_the_thread(
        "he dropped the sharp knife because it was heavy", (-2.2, 1.2), (0.2, 2), (1, -1.2), (2.4, -0.4), (0.9, -2.1)
    ),
    _like_the_thread(
        "we read the long letter because it was funny", (-1.8, 0.9), (-0.1, 1.8), (1.1, -0.9), (1.8, -1.5), (0.8, -1.9)
    ),
)
THING = 4
