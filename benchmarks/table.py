"""The benchmark as Markdown tables, for the documentation.

    python -m benchmarks.table docs/results/benchmarks docs/benchmarks.md

fills the tables of the page, each between ``<!-- begin NAME -->`` and ``<!-- end NAME -->``, and
draws the figure beside the JSON files. Every number is read from these; a part that was not run
keeps the words that stand there.
"""

import json
import re
import sys
from pathlib import Path

import numpy as np

from benchmarks.figure import draw

OURS = ("ours, 512, float32", "ours, 512, float64")


def throughput(document, problem):
    """Time of each contestant and ours over it."""
    found = document["problems"][problem]
    rows = [
        (name, _half(row, ".0f"), *(_ratio(found, own, name) for own in OURS))
        for name, row in found["ns"].items()
    ]
    heads = (problem, "ns per learner-step", "ours, float32, is", "ours, float64, is")
    return _table(heads, rows + _absent(found["missing"], len(heads)))


def reproduce(document):
    """The whole command and what of it was compiling, a column for each start."""
    starts = document["starts"]
    rows = [
        (
            what,
            *(_half(found[what], ".0%" if "share" in what else ".3g") for found in starts.values()),
        )
        for what in next(iter(starts.values()))
    ]
    return _table((f"`downside reproduce all`, scale {document['scale']}", *starts), rows)


def scaling(document):
    """Exponents."""
    rows = [
        (axis, ", ".join(found["seconds"]), f"{found['exponent']:.2f}")
        for axis, found in document["axes"].items()
    ]
    return _table(("axis", "sizes", "exponent of time"), rows)


def evaluation(document):
    """Rates, starts, imports."""
    rows = [(name, f"{_half(row, '.0f')} ns per step") for name, row in document["rates"].items()]
    rows += [(name, f"{_half(row, '.2f')} s") for name, row in document["starts"].items()]
    imports = document["imports"]["over jax, gymnasium, scipy"]
    rows += [
        (name, f"{_half(row, '.2f')} x importing the libraries") for name, row in imports.items()
    ]
    memory = document["memory"]
    by_steps = ", ".join(f"{n}: {mb:.0f}" for n, mb in memory["MB by steps, 64 learners"].items())
    rows.append(("peak memory by steps, MB", by_steps))
    rows.append(("exponent of memory in learners", f"{memory['exponent in learners']:.2f}"))
    return _table(("what", "measured"), rows)


def solution(document):
    """Samples and time until the claims hold."""
    rows = []
    for name, row in document["bandit"]["methods"].items():
        spent = row["milliseconds per trial"]
        took = "" if spent is None else f"{spent:.2g} ms per trial"
        rows.append(("Fig. 3", name, _samples(row["samples"], row), took))
    for name, row in document["portfolio"]["methods"].items():
        spent = row["seconds, all learners, with compilation"]
        took = "" if spent is None else f"{spent:.0f} s, {row['learners']} learners"
        rows.append(("Fig. 4", name, _samples(row["samples per learner"], row), took))
    return _table(("claim", "method", "samples", "wall time"), rows)


def host(document):
    """Own time per step on CartPole."""
    over = document["ours over theirs"]
    rows = [
        (name, f"{row['median'] / 1e3:.1f}", _half(over[name], ".3f") if name in over else "1")
        for name, row in document["ns"].items()
    ]
    heads = ("CartPole", "microseconds per step", "ours is so many times that")
    return _table(heads, rows + _absent(document["missing"], 3))


def tasks(document):
    """A row for each task, method and budget: the mean over seeds, and their range."""
    groups = {}
    for row in document["rows"]:
        budget = max(b for b in document["budgets"] if b <= row["steps"])
        groups.setdefault((row["task"], budget, row["method"]), []).append(row)
    rows = [
        (task, f"{budget:,}", method, str(len(group)), *_cells(group))
        for (task, budget, method), group in sorted(groups.items())
    ]
    heads = ("task", "steps", "method", "seeds", "CPU s", "mean", "greedy mean")
    return _table(heads, rows + _absent(document["missing"], len(heads)))


def _cells(group):
    seconds = np.mean([row["cpu seconds"] for row in group])
    yield f"{seconds:.0f}"
    for what in ("mean", "greedy mean"):
        values = [row[what] for row in group]
        yield f"{np.mean(values):.0f} ({min(values):.0f} to {max(values):.0f})"


def libraries(document, problem):
    """A row for each method, threshold and budget; means over the seeds."""
    rows = []
    for (method, nu, budget), group in _groups(document, problem).items():
        mean = {k: np.mean([row[k] for row in group]) for k in group[0] if _is_number(group[0][k])}
        met, greedy = (sum(row[k] for row in group) for k in ("bound met", "greedy bound met"))
        n = len(group)
        rows.append(
            (
                method,
                "none" if nu is None else f"{nu:g}",
                f"{budget:,}",
                str(n),
                f"{mean['cpu seconds']:.0f}",
                *(f"{mean[k]:.3f}" for k in ("mean", "lpm", "risk")),
                "" if nu is None else f"{met} of {n}",
                f"{mean['at equal risk']:+.3f}"
                if problem == "portfolio"
                else f"{mean['at equal risk']:.0%}",
                *(f"{mean[f'greedy {k}']:.3f}" for k in ("mean", "risk")),
                "" if nu is None else f"{greedy} of {n}",
            )
        )
    heads = (
        problem,
        "nu",
        "steps",
        "seeds",
        "CPU s",
        "mean",
        "LPM",
        "proxy",
        "met",
        "at equal risk",
        "greedy mean",
        "greedy proxy",
        "met",
    )
    absent = {
        f"{row['method']}, nu = {row['nu']}": row["why"]
        for row in document["missing"]
        if row["problem"] == problem
    }
    return _table(heads, rows + _absent(absent, len(heads)))


def _groups(document, problem):
    """Rows by (method, threshold, budget), the budget being the largest that was filled."""
    budgets = (*document["budgets"], 1_000_000)
    found = {}
    for row in sorted(
        (row for row in document["rows"] if row["problem"] == problem),
        key=lambda row: (row["threshold"] or np.inf, row["method"], row["steps"]),
    ):
        budget = max((b for b in budgets if b <= row["steps"]), default=row["steps"])
        found.setdefault((row["method"], row["threshold"], budget), []).append(row)
    return found


def _ratio(found, own, name):
    row = found["ours over theirs"].get(f"{own} / {name}")
    return "" if row is None else f"{_half(row, '.3g')} times"


def _half(row, form):
    """Median and middle half."""
    return f"{row['median']:{form}} ({row['low']:{form}} to {row['high']:{form}})"


def _samples(needed, row):
    return f"more than {row['looked at most']:,.0f}" if needed is None else f"{needed:,.0f}"


def _absent(missing, width):
    """What could not be installed or run stands in the table too."""
    return [(name, f"not measured: {why}", *[""] * (width - 2)) for name, why in missing.items()]


def _is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _table(heads, rows):
    lines = ["| " + " | ".join(row) + " |" for row in (heads, *rows)]
    lines.insert(1, "|" + "---|" * len(heads))
    return "\n".join(lines)


def tables(folder):
    """{part: text} of all JSON files there."""
    found = {}
    for path in sorted(Path(folder).glob("*.json")):
        document = json.loads(path.read_text())
        if path.stem == "libraries":
            for problem in ("portfolio", "consumption"):
                found[f"libraries, {problem}"] = libraries(document, problem)
        elif path.stem == "throughput":
            for problem in document["problems"]:
                found[f"throughput, {problem}"] = throughput(document, problem)
        else:
            found[path.stem] = globals()[path.stem](document)
    return found


def fill(page, folder):
    """The page with every table that the folder has."""
    for name, text in tables(folder).items():
        between = re.compile(rf"(<!-- begin {name} -->\n).*?(\n<!-- end {name} -->)", re.DOTALL)
        if not between.search(page):
            raise ValueError(f"the page has no place for {name}: two comments, begin and end")
        page = between.sub(lambda found, text=text: f"{found[1]}\n{text}\n{found[2]}", page)
    return page


if __name__ == "__main__":
    target = Path(sys.argv[2])
    target.write_text(fill(target.read_text(), sys.argv[1]))
    draw(sys.argv[1])
