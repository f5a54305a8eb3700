"""The numbers by which the diagnosis decides: how much evidence a name takes, how near is the same, how long is searched.

Evidence is counted in bits: what was seen is worth so many, and each doubling of the programs that were tried takes one away.
What is left is how unlikely it is that a program that was not written does the same by chance.
"""

from autograder.judging.exercise import Tolerance

# ------------------------------------------------------------------------------------------ evidence

SURE = 8.0  # bits left over for a name that is said for certain: one coincidence in 256
LIKELY = 4.0  # bits left over for a name that is said with a hedge: one in 16
LITTLE = 2.0  # bits left over for one change of the learner's own code: that it passes every check is seen, and no guess
ENOUGH = 4  # entries of an array that do not agree by chance
MOST_OTHERS = 3  # mistakes that may stand beside a certain one and are listed; of more it is said only that there is something

# ------------------------------------------------------------------------------------------ nearness

NEARLY = Tolerance(1e-4, 1e-6)  # a part of a result that counts as right where the wrong ones are counted
NUMBER = Tolerance(1e-4, 1e-9)  # a single number has to be this near to what a mistake gives: many ways of reckoning come close

# ------------------------------------------------------------------------------------------ searching for a change of the code

ASKED, ASKED_AGAIN = 700, 450  # changes that are tried, and beside each that helps: what a second or two allows
HELPING = 8  # changes that help, beside which a second one is tried
MOST_FIRST, MOST_HEALING = 120, 6  # changes of the first wrong place that are tried, and of those that put it right
MOST_SECOND = 160  # changes of the next wrong place, and of what comes after it
SECONDS = 2.5  # of the processor for all of the search: a learner waits for it
PATIENCE = 4.0  # of the clock for all of it, on a busy machine
GUIDED = 0.75  # the share of the time after which pairs are looked for otherwise
LONGEST = 0.3  # seconds for one edited program, which might not end
WATCHED = 1.0  # seconds for the answer itself when it is watched: that takes several times as long as it runs
