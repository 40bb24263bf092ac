"""What a peer's training leaves behind: its policy as plain arrays, with the time it took."""

import json
import sys
import time
from pathlib import Path

import numpy as np


class Snapshots:
    """Saves policies to ``out`` with a line of JSON for each; `libraries` reads them.

    Times count from here on, without imports and without what saving takes.
    """

    def __init__(self, out):
        self.out = Path(out)
        self.out.mkdir(parents=True, exist_ok=True)
        (self.out / "snapshots.jsonl").unlink(missing_ok=True)
        self.began, self.idle = time.perf_counter(), time.process_time()

    def save(self, steps, linear_layers, activation, **others):
        """A network's linear layers in order, and what else its actions depend on."""
        before = time.process_time()
        arrays = {"activation": np.array(activation)}
        for i, layer in enumerate(linear_layers):
            arrays[f"weights_{i}"] = layer.weight.detach().numpy()
            arrays[f"biases_{i}"] = layer.bias.detach().numpy()
        arrays |= {name: np.asarray(value) for name, value in others.items()}
        np.savez(self.out / f"{steps}.npz", **arrays)
        wall = time.perf_counter() - self.began
        line = {"steps": int(steps), "cpu": before - self.idle, "wall": wall}
        with open(self.out / "snapshots.jsonl", "a") as file:
            file.write(json.dumps(line) + "\n")
        self.idle += time.process_time() - before


def task():
    """What to train, from the command line: problem, threshold, seed, budgets (steps), out."""
    return json.loads(sys.argv[1])
