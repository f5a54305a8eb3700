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
