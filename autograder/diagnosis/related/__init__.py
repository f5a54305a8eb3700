"""How what was returned comes from what is right, where no known mistake explains it: a factor, a transpose, a shift by one.

In: two arrays and the sizes among the inputs. Out: `Relation`s, the most telling first. May import `judging` and itself.

`relation` is what they are, `factors` finds a number too many or too few, `places` the right numbers elsewhere, `relations` all.
"""
