"""The report of a run as lines of text and as a figure."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.bench import title


def lines(report: Mapping[str, Any]) -> list[str]:
    """The machine, and a table for each case that has been measured."""
    shown = [", ".join(f"{name} {value}" for name, value in report["machine"].items())]
    for case in report["cases"]:
        shown += ["", f"{case['name']}  {title(case['sizes'])}  floor {_time(case['floor'])}, {case['rounds']} rounds"]
        shown.append(f"  {'':38}{'median':>10}{'x ours':>9}{'of floor':>10}{'made':>10}")
        for row in case["contenders"]:
            if "skipped" in row:
                shown.append(f"  {row['name']:38}skipped: {row['skipped']}")
                continue
            made = "" if row["allocated"] is None else f"{row['allocated'] / 2**20:.1f} MB"
            speed = f"{_time(row['seconds']):>10}{row['times_ours']:>9.2f}{row['of_floor']:>10.2f}"
            shown.append(f"  {row['name']:38}{speed}{made:>10}")
    return shown


def summary(report: Mapping[str, Any]) -> list[str]:
    """The machine's ceilings, then the goals: what was to be reached, and what was."""
    rates = report["ceilings"]
    reads = ", ".join(f"{name} {rate / 1e9:.1f} GB/s" for name, rate in rates.items() if name != "matmul")
    judged = [_goal(case, goal) for case in report["cases"] for goal in case["goals"]]
    shown = [f"ceilings: {reads}, matmul {rates['matmul'] / 1e9:.1f} GFLOP/s"]
    return [*shown, "", "goals", *judged] if judged else shown


def _goal(case: Mapping[str, Any], goal: Mapping[str, Any]) -> str:
    ours, got = case["contenders"][0]["name"], goal["got"]
    contender = "fastest contender" if goal["against"] == "fastest" else goal["against"]
    what = "share of the floor" if contender == "floor" else f"{contender} / {ours}"
    value, symbol = ("not measured", "·") if got is None else (f"{got:.2f}", "✓" if got >= goal["at_least"] else "✗")
    return f"{symbol} {case['name']} {title(case['sizes'])}: {what} {value}, goal {goal['at_least']:.2g}"


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"


def plot(report: Mapping[str, Any], path: Path) -> None:
    """A figure in `path`: for each case, how many times the floor each contender takes, on a logarithmic axis."""
    from attention_course.plots import COLOURS, MARKERS, figure

    names = list(dict.fromkeys(row["name"] for case in report["cases"] for row in case["contenders"]))
    turns = range(len(MARKERS))  # neighbours differ in both, and no two contenders agree in both
    kinds = [(colour, MARKERS[(i + turn) % len(MARKERS)]) for turn in turns for i, colour in enumerate(COLOURS)]
    cases = report["cases"][::-1]
    drawn, ax = figure(height=1.4 + 0.32 * max(len(cases), len(names) / 2), width=9.5)
    for name, (colour, marker) in zip(names, kinds, strict=False):
        points = [
            (row["seconds"] / case["floor"], y)
            for y, case in enumerate(cases)
            for row in case["contenders"]
            if row["name"] == name and "skipped" not in row
        ]
        if points:
            ax.plot(*zip(*points, strict=True), linestyle="", marker=marker, color=colour, label=name)
    ax.axvline(1.0, color="0.6", linewidth=1)
    ax.set(xscale="log", xlabel="time / roofline floor (1 is the floor; further right is slower)")
    ax.set_yticks(range(len(cases)), [f"{case['name']}, B={case['sizes']['B']}, n={case['sizes']['n']}" for case in cases])
    ax.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    drawn.savefig(path, bbox_inches="tight")
