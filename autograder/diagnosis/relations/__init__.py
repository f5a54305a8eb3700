"""Relate a wrong result to the right one if no known mistake explains it: by a factor, a transpose or a shift by one.

In: two arrays and the sizes among the inputs. Out: `Fact`s, the most telling first. May import `judging` and itself.

`same_array` says when two arrays count as the same, `factors` finds an extra or missing number, `places` finds the right numbers
in other places, and `simple` tries all of them.
"""
