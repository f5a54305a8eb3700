"""How large a tile fits into fast memory, and how many FLOPs per byte it gives."""

from autograder import Case, Draw, Exercise, Instead, Made, Misconception, Tolerance, Variant
from solutions import attention_without_the_matrix as ref


def _h100(draw: Draw):
    return {"n": 8192, "d": 128, "room": 228 * 1024}


def _bytes(tile: int, d: int, each: int = 0) -> int:
    """What a tile holds, with `each` numbers per query beside its running output."""
    return 2 * 3 * tile * d + 4 * (tile * tile + tile * d + each * tile)


def _with_room(tile: int, low: int, high: int, room):
    """A head whose width lies between the bounds, and `room(tile, d)` bytes for a tile."""

    def make(draw: Draw):
        d = draw.integer(low, high)
        return {"n": 2 * tile * draw.integer(5, 19), "d": d, "room": room(tile, d)}

    return make


def _just_enough(tile: int, d: int) -> int:
    """A count that is larger than the right one chooses half of the tile."""
    return _bytes(tile, d, each=2)


def _a_little_more(tile: int, d: int) -> int:
    """Enough for some counts that are too large, but not for a second square."""
    return _bytes(tile, d) + 2 * tile * tile


def _almost_twice(tile: int, d: int) -> int:
    """Twice the tile is too large by a few bytes, whether or not somebody counts m and z."""
    return _bytes(2 * tile, d) - 2


def _without_three_numbers_a_feature(tile: int, d: int) -> int:
    """Twice the tile seems to fit where the running output is left out, but not where two inputs are counted."""
    return _bytes(2 * tile, d) - 3 * 2 * tile * d


def _without_a_quarter_of_the_square(tile: int, d: int) -> int:
    """Twice the tile seems to fit where the scores are counted too small, but not where a strip is missing."""
    return _bytes(2 * tile, d) - 4 * tile * tile


def _chosen(
    *,
    inputs=3,
    input_bytes=2,
    scores=1,
    computed_bytes=4,
    outputs=1,
    power=True,
    beyond=1,
    flops=4,
    moved_bytes=2,
    strips=lambda tiles: 2 + 2 * tiles,
    result=lambda work, moved: work / moved,
):
    """The choice with one part of a count replaced by a mistake."""

    def answer(n, d, room):
        def held(tile):
            computed = scores * tile * tile + outputs * tile * d + 2 * outputs * tile
            return inputs * input_bytes * tile * d + computed_bytes * computed

        tile = 1
        while held(2 * tile if power else tile + 1) <= room:
            tile = 2 * tile if power else tile + 1
        tile *= beyond
        return tile, result(flops * n * n * d, moved_bytes * n * d * strips(n / tile))

    return answer


def _without_m_and_z(n, d, room):
    sizes = [2**i for i in range(20) if _bytes(2**i, d) <= room]
    return sizes[-1], n / (1 + n / sizes[-1])


def _with_a_number_more(n, d, room):
    tile = 1 << 20
    while _bytes(tile, d, each=2) > room:
        tile //= 2
    reads = sum(2 * n * d for _ in range(n // tile))
    return tile, 4 * n**2 * d / (2 * (reads + n * d + n * d))


CHOOSE_TILE = Exercise(
    "choose_tile",
    title="Design: how large should a tile be?",
    kind="design",
    points=2,
    difficulty=3,
    minutes=9,
    reference=ref.choose_tile,
    recipe=Made(_chosen),
    tolerance=Tolerance(rtol=1e-6, atol=0.0),  # exact counts, one division
    cases=(
        Case("an H100", _h100),
        Case("a tile that just fits", _with_room(8, 9, 40, _just_enough)),
        Case("narrow heads, a tile that fits", _with_room(32, 3, 5, _a_little_more)),
        Case("twice the tile is a little too large", _with_room(16, 9, 40, _almost_twice)),
        Case("narrow heads, twice the tile is a little too large", _with_room(32, 3, 8, _almost_twice)),
        Case("wide heads", _with_room(4, 150, 300, _without_three_numbers_a_feature)),
        Case("narrow heads", _with_room(32, 3, 5, _without_a_quarter_of_the_square)),
    ),
    hints=(
        "Follow one tile of queries through the loop. Which arrays are on the chip when it meets a tile of keys, and which of them stay when the "
        "next keys arrive?",
        "On the chip are three strips of inputs, one square of scores, and an output, a maximum and a sum for each query. How many bytes is that "
        "for a tile of 8?",
        "Double the tile as long as its bytes fit. For the traffic, each query and each output travels once. How many tiles of queries are "
        "there, and how much does each of them read?",
    ),
    misconceptions=(
        Misconception(
            "output_not_held",
            "left the running output out of fast memory",
            "The sums of a query are needed when the next keys arrive, so where are they kept?",
            Instead(outputs=0),
        ),
        Misconception(
            "scores_not_held",
            "left the scores out of fast memory",
            "The scores of a tile exist until the values have been averaged, and they must not go to memory.",
            Instead(scores=0),
        ),
        Misconception(
            "scores_and_weights_held",
            "counted a square for the scores and another one for the weights",
            "The docstring lets the weights overwrite the scores.",
            Instead(scores=2),
        ),
        Misconception(
            "two_inputs_held",
            "counted two of the three inputs in fast memory",
            "Each tile needs its rows of Q, of K and of V.",
            Instead(inputs=2),
        ),
        Misconception(
            "two_bytes_for_all",
            "counted two bytes for every number on the chip",
            "Only Q, K and V have 2 bytes there. What is computed has 4.",
            Instead(computed_bytes=2),
        ),
        Misconception(
            "four_bytes_for_all",
            "counted four bytes for every number on the chip",
            "Q, K and V have 2 bytes on the chip as well.",
            Instead(input_bytes=4),
        ),
        Misconception(
            "first_that_does_not_fit",
            "returned the first tile that doesn't fit",
            "The largest tile that fits is half of it.",
            Instead(beyond=2),
        ),
        Misconception(
            "one_step_too_small",
            "returned half of the largest tile that fits",
            "A tile that needs exactly `room` bytes still fits.",
            Instead(beyond=0.5),
        ),
        Misconception(
            "any_size",
            "returned a tile that is not a power of two",
            "Try only 1, 2, 4, 8 and so on.",
            Instead(power=False),
        ),
        Misconception(
            "keys_read_once",
            "let keys and values travel once",
            "Only one tile of keys is on the chip at a time. What does the second tile of queries have to do?",
            Instead(strips=lambda tiles: 4),
        ),
        Misconception(
            "keys_alone_read_again",
            "let only the keys, or only the values, be read again for each tile of queries",
            "Every tile of queries needs both.",
            Instead(strips=lambda tiles: 3 + tiles),
            also=(Instead(strips=lambda tiles: 2 + tiles),),
        ),
        Misconception(
            "everything_read_again",
            "let the queries and outputs travel once for every tile",
            "A tile of queries stays on the chip until all keys have passed by.",
            Instead(strips=lambda tiles: 4 * tiles),
            also=(Instead(strips=lambda tiles: 1 + 3 * tiles),),
        ),
        Misconception(
            "output_not_written",
            "left one of the strips out of the traffic that travels once",
            "Q is read, and O has to be written.",
            Instead(strips=lambda tiles: 1 + 2 * tiles),
        ),
        Misconception(
            "queries_and_outputs_free",
            "counted only the keys and values in the traffic",
            "Q is read, and O has to be written.",
            Instead(strips=lambda tiles: 2 * tiles),
        ),
        Misconception(
            "half_the_flops",
            "counted half of the FLOPs",
            "There are two products, each with a multiplication and an addition for every query, key and feature.",
            Instead(flops=2),
        ),
        Misconception(
            "numbers_for_bytes",
            "divided by numbers instead of bytes",
            "What travels has 2 bytes per number.",
            Instead(moved_bytes=1),
        ),
        Misconception(
            "bytes_per_flop",
            "returned bytes per FLOP",
            "The question asks for FLOPs divided by bytes.",
            Instead(result=lambda work, moved: moved / work),
        ),
    ),
    variants=(
        Variant("without_m_and_z", _without_m_and_z),
        Variant("downwards", _with_a_number_more),
    ),
)
