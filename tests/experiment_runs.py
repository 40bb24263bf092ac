"""An experiment of the paper at the smallest scale, as `downside reproduce` leaves it."""

from downside.experiments.base import publish
from downside.studies.study import Study
from downside.studies.trial import run_trial


def reproduce(name, path):
    """Run the trial of an experiment below ``path``, and publish its numbers in ``path``."""
    (trial,) = Study({"experiment": name, "scale": "smoke", "seed": 3}).trials
    fate = run_trial(trial, path / "trial")
    assert fate.state == "done", fate.reason
    assert not (path / "trial/run").exists()
    numbers = (path / "trial/results.npz").read_bytes()
    words = f"downside reproduce {name}"
    publish(name, numbers, path, scale="smoke", seed=3, seconds=fate.seconds, command=words)
