"""A shop that orders goods: an environment of one's own, and a policy under a bound on its losses.

python examples/inventory.py [steps]
"""

import sys

import gymnasium
import numpy as np
from gymnasium import spaces

import downside as ds


class Inventory(gymnasium.Env):
    """Twelve weeks; each week order 0 to 5 boxes at 1, sell at 2 what is asked for, store at 0.1.

    Demand is 2 on average; in one week out of ten nobody comes. What is left at the end is lost.
    """

    def __init__(self):
        self.observation_space = spaces.Box(0.0, 1.0, (2,), np.float32)
        self.action_space = spaces.Discrete(6)

    def reset(self, *, seed=None, options=None):
        """Begin with an empty store."""
        super().reset(seed=seed)
        self.stock, self.week = 0, 0
        return self.observe(), {}

    def step(self, action):
        """Order, sell, store."""
        self.stock = min(self.stock + int(action), 10)
        demand = 0 if self.np_random.random() < 0.1 else self.np_random.poisson(2.0)
        sold = min(self.stock, int(demand))
        self.stock -= sold
        self.week += 1
        reward = 2.0 * sold - float(action) - 0.1 * self.stock
        return self.observe(), reward, self.week == 12, False, {}

    def observe(self):
        """Stock and week, both from 0 to 1."""
        return np.array([self.stock / 10, self.week / 12], np.float32)


def main(steps):
    """Train without a bound, then under half of the risk that this takes."""
    options = {"horizon": 12, "n_seeds": 3}  # the season ends after 12 weeks
    neutral = ds.NAC(Inventory, **options).learn(steps, progress_bar=False)
    threshold = neutral.suggest_threshold(target=8.0)  # half of its shortfall below 8
    careful = ds.NRCPO(Inventory, target=8.0, threshold=threshold, **options)
    careful.learn(steps, progress_bar=False)
    print(f"a bound of {threshold:.2f} on the shortfall below 8\n{careful.summary()}")
    return neutral, careful


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60_000)
