"""The thresholds of the diagnosis: how much evidence a name needs, how close counts as the same, and how long to search.

Evidence is counted in bits. What was observed is worth a number of bits, and each doubling of the programs that were tried costs
one. The bits left over say how unlikely it is that a program which the learner did not write matches by chance.
"""

from autograder.judging.exercise import Tolerance

# ------------------------------------------------------------------------------------------ evidence

SURE = 8.0  # bits left over for a name that is said for certain: one coincidence in 256
LIKELY = 4.0  # bits left over for a name that is said with a hedge: one in 16
LITTLE = 2.0  # bits left over for one change of the learner's own code: that it passes every check is seen, and no guess
ENOUGH = 4  # entries of an array that do not agree by chance
MOST_OTHERS = 3  # mistakes that may stand beside a certain one and are listed; of more it is said only that there is something

# ------------------------------------------------------------------------------------------ nearness

NEARLY = Tolerance(1e-4, 1e-6)  # how close a part counts as right when the wrong parts are counted
NUMBER = Tolerance(1e-4, 1e-9)  # how close a single number has to be to a mistake's, since many calculations come close

# ------------------------------------------------------------------------------------------ searching for a change of the code

ASKED, ASKED_AGAIN = 700, 450  # changes to try alone, and together with each one that helps, in a second or two
HELPING = 8  # helpful changes with which a second change is tried
SECONDS = 2.5  # processor seconds for the whole search, while the learner waits
PATIENCE = 4.0  # clock seconds for the whole search, on a busy machine
LONGEST = 0.3  # seconds for one edited program, which might not terminate
WATCHED = 1.0  # seconds for the answer while it is watched, which slows it down several times
