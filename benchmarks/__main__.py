"""`python -m benchmarks [part ...] [--quick] [--out FOLDER] [--fresh] [--no-peers]`: measure.

Each part writes OUT/part.json, which is kept unless --fresh; the figure is drawn from what is
there. --quick runs everything at toy size in a folder of its own.
"""

import argparse
import inspect
import json
import time
from importlib import import_module
from pathlib import Path

from benchmarks.agents import use_all_cores
from benchmarks.measuring import machine, say

PARTS = (
    "throughput",
    "evaluation",
    "reproduce",
    "scaling",
    "solution",
    "host",
    "tasks",
    "libraries",
)


def main(arguments=None):
    """Run the parts that are not there yet."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__.split("\n\n")[1])
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}; or all")
    parser.add_argument("--quick", action="store_true", help="toy sizes: does it run?")
    parser.add_argument("--out", type=Path, default=Path("results/bench"))
    parser.add_argument("--fresh", action="store_true", help="measure again what is there")
    parser.add_argument("--no-peers", action="store_true", help="without other libraries")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.parts) - set(PARTS))
    if unknown:
        parser.error(f"there is no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    use_all_cores()
    out = options.out / "quick" if options.quick else options.out
    out.mkdir(parents=True, exist_ok=True)
    for name in options.parts or PARTS:
        file = out / f"{name}.json"
        if file.exists() and not options.fresh:
            say(f"{name}: kept {file}; --fresh measures again")
            continue
        say(f"{name}: begins")
        write(file, measure(name, options.quick, not options.no_peers, out))
        say(f"{name}: wrote {file}")
    import_module("benchmarks.figure").draw(out)


def measure(name, quick, peers, out):
    """A part's results with what they depend on."""
    run = import_module(f"benchmarks.{name}").run
    described, began = machine(), time.perf_counter()
    more = {"out": out} if "out" in inspect.signature(run).parameters else {}
    found = run(quick=quick, peers=peers, **more)
    seconds = round(time.perf_counter() - began, 1)
    return {"part": name, "quick": quick, "machine": described, "seconds": seconds, **found}


def write(file, document):
    """All at once, so that a part is there or not."""
    partial = file.with_suffix(".partial")
    partial.write_text(json.dumps(document, indent=1) + "\n")
    partial.replace(file)


if __name__ == "__main__":
    main()
