"""NRCPO on a small Python environment, in few steps and quietly."""

from downside.control import NRCPO
from host_environments import Drift

QUIET = {"progress_bar": False}
PERIOD = 60


def make(env=Drift, **options):
    return NRCPO(env, target=0.5, threshold=0.3, discount=0.95, period=PERIOD, **options)
