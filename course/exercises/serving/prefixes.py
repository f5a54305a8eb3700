"""A prefix cache with two bugs to find: pages are found by their tokens alone, and the wrong ones are dropped first."""

from autograder import Call, Case, Draw, Exercise, Instead, Made, Misconception, Script, Variant
from solutions import serving as ref


def _tokens(draw: Draw, n: int) -> list[int]:
    return [int(token) for token in draw.rng.integers(100, 999, n)]


def _requests(*texts, size: int = 4, room: int = 50):
    return Script({"size": size, "room": room}, None, tuple(Call("request", {"text": text}) for text in texts))


def _one_beginning(draw: Draw):
    """Two questions behind the same ten tokens, two of whose pages are full."""
    same = _tokens(draw, 10)
    first, second = same + _tokens(draw, 5), same + _tokens(draw, 7)
    return _requests(first, second, first)


def _equal_pages_behind_other_ones(draw: Draw):
    """The second page of both texts holds the same tokens, the first one doesn't."""
    same = _tokens(draw, 8)
    return _requests(_tokens(draw, 4) + same, _tokens(draw, 4) + same, same + _tokens(draw, 2))


def _a_page_in_another_place(draw: Draw):
    a, b = _tokens(draw, 4), _tokens(draw, 4)
    return _requests([*a, *b, 1], [*b, *a, 1], [*a, *a, 1], [*b, *b, 1], [*a, *b, *a, 1])


def _two_texts_and_little_room(draw: Draw):
    """Five pages for two texts of three pages each: the last page of the older text has to go."""
    a, b = _tokens(draw, 13), _tokens(draw, 13)
    return _requests(a, b, a, b, room=5)


def _one_text_that_does_not_fit(draw: Draw):
    """Three pages of five may stay: the first ones, as without them nothing is found."""
    a = _tokens(draw, 21)
    return _requests(a, a, a[:9], room=3)


def _the_one_used_longest_ago(draw: Draw):
    """Of three texts the second was used longest ago when a fourth comes."""
    a, b, c, d = (_tokens(draw, 9) for _ in range(4))
    return _requests(a, b, c, a, d, a, c, b, room=6)


class _Parts(ref.CarelessCache):
    """The repaired cache in parts; a setting takes one of them otherwise."""

    def named(self, parent, page):
        return hash((parent, page))

    def ordered(self, keys):
        return keys[::-1]

    def moved(self, key):
        self.pages.pop(key, None)
        self.pages[key] = True

    def oldest(self):
        return next(iter(self.pages))

    def fits(self):
        return len(self.pages) <= self.room

    def key(self, parent, page):
        return self.named(parent, page)

    def use(self, keys):
        for key in self.ordered(keys):
            self.moved(key)
        while not self.fits():
            del self.pages[self.oldest()]


def _with(**parts):
    return type("Mistaken", (_Parts,), parts)


def _not_moved(self, key):
    self.pages.setdefault(key, True)


def _only_new_ones(self, keys):
    return [key for key in keys[::-1] if key not in self.pages]


class _AllTokensBefore(ref.CarelessCache):
    """A key is the tuple of all tokens up to the page's end."""

    def key(self, parent, page):
        return (*(parent or ()), *page)

    def use(self, keys):
        for key in reversed(keys):
            self.pages.pop(key, None)
            self.pages[key] = True
        while len(self.pages) > self.room:
            self.pages.pop(next(iter(self.pages)))


class _Nested(ref.CarelessCache):
    def key(self, parent, page):
        return parent, page

    def use(self, keys):
        super().use(list(reversed(keys)))


PREFIX_CACHE = Exercise(
    "PrefixCache",
    title="Find two bugs: somebody else's words",
    kind="bug",
    points=2,
    difficulty=4,
    minutes=10,
    reference=ref.PrefixCache,
    recipe=Made(_with),
    cases=(
        Case("two texts that begin alike", _one_beginning),
        Case("equal pages behind other ones", _equal_pages_behind_other_ones),
        Case("a page in another place", _a_page_in_another_place),
        Case("two texts and little room", _two_texts_and_little_room, edge=0.2),
        Case("one text that doesn't fit", _one_text_that_does_not_fit, edge=0.15),
        Case("the text used longest ago goes", _the_one_used_longest_ago, edge=0.15),
    ),
    hints=(
        "On what do the keys and values of a page depend, besides its own tokens? And what is a page worth if the one before it has been "
        "dropped?",
        "The key of a page has to change with everything before it. The parent's key already stands for that. In `use`, the pages come "
        "from the first to the last, so the first one counts as used longest ago.",
        "The draft's `key` ignores `parent`, so let both enter the hash. Its `use` drops the pages first that it stored first. In which "
        "order must the pages of one text be stored, if its last pages are to go first?",
    ),
    misconceptions=(
        Misconception(
            "tokens_alone",
            "found pages by their own tokens alone, whatever stood before them",
            "Keys and values of a page depend on all tokens before it. Let `parent` be a part of the key.",
            Instead(named=lambda self, parent, page: hash(page)),
        ),
        Misconception(
            "first_pages_dropped",
            "dropped the first page of a text before its last ones",
            "Without its first page nothing of a text can be found. Use the pages from the last to the first, so that the first one counts "
            "as used last.",
            Instead(ordered=lambda self, keys: keys),
        ),
        Misconception(
            "careless",
            "kept both bugs: pages are found by their own tokens alone, and the first page of a text is dropped first",
            "Let `parent` be a part of the key, and use the pages from the last to the first.",
            Instead(named=lambda self, parent, page: hash(page), ordered=lambda self, keys: keys),
        ),
        Misconception(
            "parent_alone",
            "made the key of the parent alone",
            "The tokens of the page are a part of its key, too.",
            Instead(named=lambda self, parent, page: hash(parent)),
        ),
        Misconception(
            "found_pages_not_used",
            "didn't count a page that was found as used, so a page that everybody needs is dropped first",
            "Take the key out of `pages` and put it in again. Then it is the last one.",
            Instead(moved=_not_moved),
            also=(Instead(ordered=_only_new_ones),),
        ),
        Misconception(
            "newest_dropped",
            "dropped the page that was used last",
            "The first key in `pages` is the one used longest ago: `next(iter(self.pages))`.",
            Instead(oldest=lambda self: next(reversed(self.pages))),
        ),
        Misconception(
            "nothing_dropped",
            "stored more pages than there is room for",
            "Drop pages until no more than `room` are left.",
            Instead(fits=lambda self: True),
        ),
        Misconception(
            "one_page_too_few",
            "stored one page less than there is room for",
            "`room` pages fit, so drop only while there are more.",
            Instead(fits=lambda self: len(self.pages) < self.room),
        ),
    ),
    variants=(Variant("all_tokens_before", _AllTokensBefore), Variant("nested", _Nested)),
)
