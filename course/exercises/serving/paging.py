"""A store of pages that texts share, with a silent bug to find."""

import torch

from autograder import Call, Case, Draw, Exercise, Instead, Made, Misconception, Script, Variant
from solutions import serving as ref

USED = Call("used")


def _text(method, text, **more):
    return Call(method, {"text": text, **more})


def _append(draw: Draw, text, n):
    return _text("append", text, k=draw.normal(n, 2))


def _fork_in_the_middle_of_a_page(draw: Draw):
    """Five tokens in pages of three: the second page has one free slot."""
    start = (_text("start", "a"), _append(draw, "a", 5), _text("fork", "a", new="b"))
    both = (_append(draw, "b", 2), _append(draw, "a", 2), _text("read", "a"), _text("read", "b"), USED)
    return Script({"pages": 11, "size": 3, "d": 2}, None, start + both)


def _no_page_to_spare(draw: Draw):
    """Five pages for two texts of seven tokens, whose first page is shared."""
    start = (_text("start", "a"), _append(draw, "a", 5), _text("fork", "a", new="b"))
    both = (_append(draw, "b", 2), _append(draw, "a", 2), _text("read", "a"), _text("read", "b"))
    return Script({"pages": 5, "size": 3, "d": 2}, None, start + both)


def _fork_at_the_end_of_a_page(draw: Draw):
    start = (_text("start", "a"), _append(draw, "a", 6), _text("fork", "a", new="b"))
    both = (_append(draw, "a", 1), _append(draw, "b", 4), _text("read", "a"), _text("read", "b"), USED)
    return Script({"pages": 11, "size": 3, "d": 2}, None, start + both)


def _three_children(draw: Draw):
    """The parent is read after its children have written, and a child has a child."""
    start = (_text("start", "a"), _append(draw, "a", 7), _text("fork", "a", new="b"), _append(draw, "b", 1))
    more = (_text("fork", "b", new="c"), _append(draw, "c", 2), _append(draw, "b", 1), _append(draw, "a", 3))
    return Script({"pages": 13, "size": 5, "d": 2}, None, (*start, *more, *(_text("read", t) for t in "abc"), USED))


def _two_forks_of_one(draw: Draw):
    """Both children and the parent write into what was one half-full page."""
    start = (_text("start", "a"), _append(draw, "a", 4), _text("fork", "a", new="b"), _text("fork", "a", new="c"))
    writes = (_append(draw, "b", 1), _append(draw, "c", 2), _append(draw, "a", 1))
    return Script({"pages": 11, "size": 3, "d": 2}, None, (*start, *writes, *(_text("read", t) for t in "abc"), USED))


class _ParentCopies(ref.LeakyPages):
    """As soon as a text was forked it copies before it writes; its children, who look at the same page, do not."""

    def __init__(self, pages, size, d):
        super().__init__(pages, size, d)
        self.forked = set()

    def fork(self, text, new):
        super().fork(text, new)
        self.forked.add(text)

    def append(self, text, k):
        if text in self.forked and self.length[text] % self.pool.shape[1]:
            shared = self.table[text][-1]
            self.table[text][-1] = self.free.pop(0)
            self.pool[self.table[text][-1]] = self.pool[shared]
        self.forked.discard(text)
        super().append(text, k)


class _CopiesBeforeItWrites(ref.LeakyPages):
    """Whoever writes into a half-full page copies it, whether another text lists it or not."""

    def copy(self, text):
        if self.length[text] % self.pool.shape[1]:
            mine = self.free.pop(0)
            self.pool[mine] = self.pool[self.table[text][-1]]
            self.table[text][-1] = mine

    def append(self, text, k):
        self.copy(text)
        super().append(text, k)


class _CopiesForEachToken(_CopiesBeforeItWrites):
    def append(self, text, k):
        for row in k:
            super().append(text, row[None])


class _Forking(ref.SharedPages):
    """The repaired pages, their `fork` in parts; a setting takes one of them otherwise."""

    def listed(self, pages):
        return list(pages)

    def copied(self, pages, free):
        """Which places of the table get a page of their own; `free` slots of the last page have not been written."""
        return [len(pages) - 1] if free else []

    def taken(self):
        return self.free.pop(0)

    def filled(self, page, shared):
        self.pool[page] = self.pool[shared]

    def listed_at(self, table, place, page):
        table[place] = page

    def fork(self, text, new):
        size, pages = self.pool.shape[1], self.table[text]
        self.table[new], self.length[new] = self.listed(pages), self.length[text]
        for place in self.copied(pages, -self.length[text] % size):
            shared, mine = pages[place], self.taken()
            self.filled(mine, shared)
            self.listed_at(self.table[new], place, mine)


def _with(**parts):
    return type("Mistaken", (_Forking,), parts)


def _none_copied(self, pages, free):
    return []


class _CopyOnWrite:
    """Nothing is copied at the fork; whoever writes first into a shared page copies it."""

    def __init__(self, pages, size, d):
        self.pages, self.readers = [torch.zeros(size, d) for _ in range(pages)], [0] * pages
        self.size, self.table, self.length = size, {}, {}

    def _take(self):
        page = self.readers.index(0)
        self.readers[page] = 1
        return page

    def start(self, text):
        self.table[text], self.length[text] = [], 0

    def fork(self, text, new):
        self.table[new], self.length[new] = list(self.table[text]), self.length[text]
        for page in self.table[new]:
            self.readers[page] += 1

    def append(self, text, k):
        for row in k:
            slot = self.length[text] % self.size
            if slot == 0:
                self.table[text].append(self._take())
            page = self.table[text][-1]
            if self.readers[page] > 1:
                self.readers[page] -= 1
                self.table[text][-1] = self._take()
                self.filled(self.table[text][-1], page)
            self.pages[self.table[text][-1]][slot] = row
            self.length[text] += 1

    def filled(self, page, shared):
        self.pages[page].copy_(self.pages[shared])

    def read(self, text):
        return torch.cat([self.pages[page] for page in self.table[text]])[: self.length[text]]

    def used(self):
        return sum(count > 0 for count in self.readers)


def _of_each_text(self):
    """A page counted for every text that lists it."""
    return sum(len(pages) for pages in self.table.values())


class _WritesIntoAnEmptyPage(_CopyOnWrite):
    def filled(self, page, shared):
        pass


class _CopiesOnWriteAndCountsTwice(_CopyOnWrite):
    used = _of_each_text


SHARED_PAGES = Exercise(
    "SharedPages",
    title="Find the bug: pages that two texts share",
    kind="bug",
    points=2,
    difficulty=3,
    minutes=9,
    reference=ref.SharedPages,
    recipe=Made(_with),
    tensors=True,
    cases=(
        Case("a fork in the middle of a page", _fork_in_the_middle_of_a_page),
        Case("a fork at the end of a page", _fork_at_the_end_of_a_page),
        Case("a child of a child", _three_children),
        Case("two forks of one text", _two_forks_of_one),
        Case("no page to spare", _no_page_to_spare),
    ),
    hints=(
        "Draw five tokens on pages of three slots. Then fork, and write one token to each text. Into which slot of which page does each "
        "of them go?",
        "Full pages are never written again, so texts may share them as long as they like. The last page is different while it has free "
        "slots, because both texts will write into the same one.",
        "Only `fork` has to change, or only `append` if you copy at the first write. Where the last page is not full, the new text takes "
        "a page from `free`, copies the contents, and lists it in the place of the shared page.",
    ),
    misconceptions=(
        Misconception(
            "last_page_shared",
            "let both texts write into the same half-full page, so each reads what the other wrote last",
            "Two texts that will both write must not share a page with free slots. Give one of them a copy.",
            Instead(copied=_none_copied),
        ),
        Misconception(
            "copied_everything",
            "copied all pages, which gives the right keys but shares nothing any more",
            "Full pages are never written again. Copy only the last page, and only if it has free slots.",
            Instead(copied=lambda self, pages, free: range(len(pages))),
        ),
        Misconception(
            "copied_a_full_page",
            "copied the last page even where it was full",
            "Nobody writes into a full page again. Copy only if `length % size` is not 0.",
            Instead(copied=lambda self, pages, free: [len(pages) - 1]),
        ),
        Misconception(
            "new_page_left_empty",
            "gave a text a page of its own without the keys of the shared page",
            "Copy the page's contents: `pool[mine] = pool[shared]`.",
            Instead(filled=lambda self, page, shared: None),
            also=(_WritesIntoAnEmptyPage,),
        ),
        Misconception(
            "counted_for_each_text",
            "counted a page once for each text that lists it",
            "A page that two texts share is still one page. `used` counts the pages that are not free.",
            Instead(used=_of_each_text),
            also=(_CopiesOnWriteAndCountsTwice,),
        ),
        Misconception(
            "copy_behind_the_shared_page",
            "appended the copy to the new text's table, so the text lists both the shared page and its copy",
            "The copy replaces the shared page: `table[new][-1] = mine`.",
            Instead(listed_at=lambda self, table, place, page: table.append(page)),
        ),
        Misconception(
            "one_list_for_both",
            "let both texts use the same list of pages",
            "Copy the list with `list(…)`, so that a page which one text takes does not appear in the other's table.",
            Instead(listed=lambda self, pages: pages),
        ),
        Misconception(
            "parent_copies_alone",
            "copied the page only when the parent writes, so two forks of it still write into one page",
            "After two forks three texts list the same half-full page. Whoever writes into a page that others list needs a copy.",
            _ParentCopies,
        ),
        Misconception(
            "copied_what_no_other_uses",
            "copied a half-full page before each write, even if no other text lists it",
            "A copy is needed only while another text lists the page. Copy at `fork`, or check the other tables before you write.",
            _CopiesBeforeItWrites,
            also=(_CopiesForEachToken,),
        ),
        Misconception(
            "copied_where_it_is_full",
            "copied the last page where it was full and shared it where it had free slots",
            "Two texts would write into the free slots, so copy if `length % size` is **not** 0.",
            Instead(copied=lambda self, pages, free: [] if free else [len(pages) - 1]),
        ),
        Misconception(
            "first_page_copied",
            "copied the first page, although the last one has the free slots",
            "The half-full page is `table[text][-1]`.",
            Instead(copied=lambda self, pages, free: [0] if free else []),
        ),
        Misconception(
            "page_still_free",
            "took a page but left it in `free`, so the next text gets the same page",
            "`free.pop(0)` takes it out.",
            Instead(taken=lambda self: self.free[0]),
        ),
    ),
    variants=(Variant("copy_on_write", _CopyOnWrite),),
)
