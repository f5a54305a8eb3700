"""The picture of workshop 08b that shows what tiles of several sizes move and hold."""

from attention_course.moving import Moving, slider
from attention_course.plots import COLOURS, figure


def tile_sizes(n: int = 8192, d: int = 128) -> Moving:
    """Show the bytes that one head moves with tiles of several sizes, and the room that a tile takes on an H100."""

    def draw(B: int) -> object:
        moved = {"naive": 2 * (4 * n * d + 4 * n * n), "tiled": 2 * (2 * n * d + 2 * n * d * n / B)}
        fig, whole = figure(height=3.9, width=4.2)
        whole.remove()
        traffic, room = fig.subplots(2, 1, height_ratios=(3, 2))
        names = [f"{way}\n{4 * n * n * d / b:.0f} FLOPs/byte" for way, b in moved.items()]
        traffic.barh(names, [b / 1e6 for b in moved.values()], color=COLOURS[:2])
        for i, b in enumerate(moved.values()):
            traffic.text(b / 1e6 + 20, i, f"{b / 1e6:,.0f} MB", va="center")
        traffic.set(xlabel="MB moved", xlim=(0, 1400), xticks=[0, 500, 1000])
        traffic.invert_yaxis()
        # queries, keys and values in 2 bytes; scores and running results in 4
        held = (2 * 3 * B * d + 4 * (B * B + B * d + 2 * B)) / 1024
        room.barh(["one tile"], [held], color=COLOURS[5], height=0.4)
        room.text(held + 10, 0, f"{held:.0f} KB", va="center")
        room.axvline(228, color=COLOURS[6], linestyle="--", ymax=0.6)
        room.text(228, 0.36, "228 KB are there", ha="center", va="bottom")
        room.set(xlabel="KB on the chip", xlim=(0, 720), ylim=(-0.3, 0.6))
        return fig

    return slider(
        draw,
        B=[32, 64, 128, 256],
        start={"B": 64},
        labels={"B": "queries, and keys, to a tile"},
        alt="Bytes moved by one head at 8,192 tokens and room taken by one tile. Naive attention moves 545 MB, 63 FLOPs "
        "per byte. With tiles of 32 it is 1,078 MB, with 64 it is 541 MB, with 128 it is 273 MB, 126 FLOPs per byte. A tile of "
        "128 takes 225 KB, one of 256 takes 578 KB, where 228 KB are available.",
    )
