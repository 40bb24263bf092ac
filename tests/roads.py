"""The smallest problem in which a bound needs a stochastic policy."""

import numpy as np

from downside.environments import Tabular


def two_roads(discount=1.0):
    """One choice: 1 for sure, or 4 and -1 with equal chance. Mixing meets a bound between.

    The shortfall below 1 is 0 or 1 on average, so with a bound nu in [0, 1] the best mean is
    1 + nu / 2. About the mean rewards 1 and 1.5 the proxy is 0 or 1.25.
    """
    return Tabular(
        transitions=np.array([[[1.0, 0.0], [0.5, 0.5]]]),
        next_states=np.zeros((1, 2, 2), int),
        rewards=np.array([[[1.0, 1.0], [4.0, -1.0]]]),
        ends=np.ones((1, 2, 2), bool),
        start=np.array([1.0]),
        discount=discount,
        horizon=1,
    )
