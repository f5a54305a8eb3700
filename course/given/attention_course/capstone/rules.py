"""The rules of the contest in numbers, and what a run is judged by."""

from dataclasses import asdict, dataclass
from typing import Any

CONTEXT = 8192  # tokens of the conversation that the budget is for
BUDGET = 100_000_000  # bytes of cache for all layers together
PER_TOKEN = BUDGET // CONTEXT  # 12,207
PROMPT, TOKENS, STEP = 512, 1024, 64  # read at once; of a text; read at once behind the prompt
WORST_RATIO = 1.01  # the upper end of the interval of the perplexity ratio
MAY_MISS = 1  # needles that the exact cache finds and the submitted one doesn't
FILE_BYTES = 65_536  # of the submitted file: code and constants, no memory of texts


class RefusedError(Exception):
    """The submission is out of the contest; the message says why."""


@dataclass(frozen=True)
class Result:
    """How a cache did. Bytes per token count all layers; `low` and `high` are the 95 % interval of the perplexity ratio."""

    name: str
    seed: int
    bytes_per_token: float = 0.0
    declared: float = 0.0
    ratio: float = 0.0
    low: float = 0.0
    high: float = 0.0
    recalled: int = 0
    of: int = 0
    exact: int = 0  # needles that the exact cache finds
    refused: str = ""
    ours: bool = False

    @property
    def megabytes(self) -> float:
        """The whole cache at 8,192 tokens."""
        return self.bytes_per_token * CONTEXT / 1e6

    @property
    def fails(self) -> str:
        """Why it is not ranked, or nothing."""
        if self.refused:
            return f"refused: {self.refused}"
        if self.bytes_per_token > PER_TOKEN:
            return f"holds {self.megabytes:.0f} MB, the limit is {BUDGET / 1e6:.0f}"
        if self.high > WORST_RATIO:
            return f"the perplexity ratio may be {self.high:.3f}, the limit is {WORST_RATIO}"
        if self.recalled < self.exact - MAY_MISS:
            return f"recalls {self.recalled} of {self.of} needles, the exact cache {self.exact}"
        return ""

    def as_dict(self) -> dict[str, Any]:
        """The fields for a file."""
        return asdict(self)


def ranked(results: list[Result]) -> list[Result]:
    """Those that pass first, fewest bytes first; then the others, best ratio first, the refused at the end."""
    return sorted(results, key=lambda r: (bool(r.refused), bool(r.fails), r.ratio if r.fails else r.bytes_per_token, r.name))


def board(results: list[Result]) -> list[str]:
    """The leaderboard as lines of text."""
    lines = [f"{'':3}{'cache':28}{'MB':>6}  {'ratio of perplexity':24}{'needles':>8}"]
    for place, r in enumerate(ranked(results), start=1):
        name = f"{r.name} (ours)" if r.ours else r.name
        mark = f"{place}." if not r.fails else "–"
        if r.refused:
            lines.append(f"{mark:3}{name[:27]:28}{r.fails}")
            continue
        interval = f"{r.ratio:.3f} [{r.low:.3f}, {r.high:.3f}]"
        lines.append(f"{mark:3}{name[:27]:28}{r.megabytes:6.1f}  {interval:24}{r.recalled:4} of {r.of}")
        if r.fails:
            lines.append(f"{'':6}{r.fails}")
    return lines
