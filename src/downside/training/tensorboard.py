"""Training records for TensorBoard; needs the extra ``tensorboard``."""

from pathlib import Path
from typing import Any, final

import numpy as np


@final
class TensorBoard:
    """A callback that writes mean return, risks and multipliers of every learner.

    ``agent.learn(100_000, callback=ds.TensorBoard("logs"))``, then ``tensorboard --logdir logs``.
    """

    def __init__(self, folder: str | Path) -> None:
        from tensorboardX import SummaryWriter

        self._writers: dict[int, Any] = {}
        self._make = lambda i: SummaryWriter(str(Path(folder) / f"learner_{i}"), flush_secs=5)

    def __call__(self, report: Any) -> None:
        """Write one record; what is not known yet is left out."""
        for i, steps in enumerate(np.asarray(report.steps).tolist()):
            if i not in self._writers:
                self._writers[i] = self._make(i)
            numbers = {"mean return": report.returns[i]}
            for j in range(report.risks.shape[1]):
                numbers |= {
                    f"risk {j + 1}": report.risks[i, j],
                    f"multiplier {j + 1}": report.multipliers[i, j],
                }
            for name, value in numbers.items():
                if not np.isnan(value):
                    self._writers[i].add_scalar(name.replace(" ", "_"), float(value), steps)

    def close(self) -> None:
        """Write what still waits; this happens at the end of the program too."""
        for writer in self._writers.values():
            writer.close()
        self._writers = {}
