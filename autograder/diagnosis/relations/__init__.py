"""How what was returned comes from what is right, where no known mistake explains it: a factor, a transpose, a shift by one.

In: two arrays and the sizes among the inputs. Out: `Fact`s, the most telling first. May import `judging` and itself.

`same_array` says when two arrays count as the same, `factors` finds a number too many or too few, `places` the right numbers
elsewhere, and `simple` tries all of them.
"""
