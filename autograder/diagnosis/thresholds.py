"""The thresholds of the diagnosis: how much evidence a name needs, how close counts as the same, and how long to search.

Evidence is counted in bits. What was observed is worth some number of bits, and each doubling of the number of tried programs
costs one. The bits left over say how unlikely it is that a program which the learner did not write matches by chance.
"""

from autograder.judging.exercise import Tolerance

# ------------------------------------------------------------------------------------------ evidence

SURE = 8.0  # bits left over to name a mistake for certain: one coincidence in 256
LIKELY = 4.0  # bits left over to name a mistake with a hedge: one coincidence in 16
LITTLE = 2.0  # bits left over to report one change of the learner's own code, which is known to pass every check
ENOUGH = 4  # entries of an array that do not agree by chance
MOST_OTHERS = 3  # possible second mistakes that are listed; if there are more, the report only says that something else is wrong

# ------------------------------------------------------------------------------------------ nearness

NEARLY = Tolerance(1e-4, 1e-6)  # how close a part counts as right when the wrong parts are counted
NUMBER = Tolerance(1e-4, 1e-9)  # how close a single number has to be to a mistake's number, because many calculations come near

# ------------------------------------------------------------------------------------------ searching for a change of the code

ASKED, ASKED_AGAIN = 700, 450  # changes to try alone, and to try together with each helpful one, in a second or two
HELPING = 8  # helpful changes with each of which a second change is tried
SECONDS = 2.5  # processor seconds for the whole search, while the learner waits
PATIENCE = 4.0  # clock seconds for the whole search, on a busy machine
LONGEST = 0.3  # seconds for one edited program, which might not terminate
WATCHED = 1.0  # seconds for the answer while it is watched, which slows it down several times
