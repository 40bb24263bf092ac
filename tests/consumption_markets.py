"""Markets for the exact answers about consumption."""

import numpy as np

from downside.environments import Consumption

STEPS = np.arange(200)
EVEN = 1.0 / (200 - STEPS)
LINEAR_TARGETS = ["fixed-rate", "printed-steps", "printed-time"]


def other_market(**changes):
    """Parameters with nothing neutral in them."""
    numbers = {
        "liquid_drift": 0.3,
        "drift": 0.9,
        "volatility": 0.4,
        "default_probability": 0.2,
        "time_step": 0.15,
        "initial_wealth": 2.5,
        "ruin_wealth": 0.0,
        "discount": 0.9,
        "horizon": 6,
    }
    return Consumption(**{**numbers, **changes})
