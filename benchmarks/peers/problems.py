"""The three problems in NumPy, for libraries that need a Python environment.

They import nothing but NumPy and any Gymnasium, old or new, so that they run in a peer's own
virtual environment. A test steps them beside the library's own. ``info["cost"]`` is the signal of
the risk proxy, weighted by discount^t: its plain sum over an episode, which the peers bound, is
then the very quantity that we bound.
"""

import math

import gymnasium
import numpy as np


class Portfolio(gymnasium.Env):
    """Fig. 4's problem; the order is a number of units, or with ``box`` one number in [-1, 1]."""

    horizon, discount = 50, 0.99

    def __init__(self, box=False):
        low = np.array([0, 0, 0, 0, 0, -0.2], np.float32)
        high = np.array([np.inf] * 5 + [0.2], np.float32)
        self.observation_space = gymnasium.spaces.Box(low, high)
        one = gymnasium.spaces.Box(-1.0, 1.0, (1,))
        self.action_space = one if box else gymnasium.spaces.Discrete(11)
        self.box = box

    def reset(self, *, seed=None, options=None):
        """Start with a liquid wealth of 1 at the low rate."""
        super().reset(seed=seed)
        self.liquid, self.pending, self.is_high, self.n_high, self.time = 1.0, [0.0] * 4, 0, 0, 0
        return self._observe(), {}

    def step(self, action):
        """Buy, earn interest, collect what matures or lose it; then the rate may switch."""
        return self.move(action, *self.np_random.random(2))

    def move(self, action, default_noise, switch_noise):
        """A step with given uniform numbers."""
        order = round(5.0 * (min(max(float(action[0]), -1.0), 1.0) + 1.0)) if self.box else action
        affordable = math.floor((self.liquid - 0.02) / 0.02 + 1e-9)
        bought = 0.02 * min(int(order), max(affordable, 0))
        rate = 1.25 if self.is_high else 1.05
        cash, payoff = 1.005 * (self.liquid - bought), self.pending[0] * rate
        paid, lost = math.log((cash + payoff) / self.liquid), math.log(cash / self.liquid)
        reward = lost if default_noise < 0.1 else paid
        signal = max(0.9 * paid + 0.1 * lost - reward, 0.0)
        info = {"signal": signal, "cost": self.discount**self.time * signal}
        self.liquid *= math.exp(reward)
        self.pending = [value * rate for value in self.pending[1:]] + [bought * rate]
        self.n_high += self.is_high
        self.is_high ^= int(switch_noise < (0.6 if self.is_high else 0.1))
        self.time += 1
        return self._observe(), reward, self.time >= self.horizon, False, info

    def _observe(self):
        deviation = 0.2 * (self.is_high - self.n_high / max(self.time, 1))
        return np.array([self.liquid, *self.pending, deviation], np.float32)


class Consumption(gymnasium.Env):
    """Fig. 5's problem; the observation is [t / T, W / (1 + W)].

    The action is the share at risk and the fraction consumed, with ``box`` both in [-1, 1].
    """

    horizon, discount = 200, 1.0

    def __init__(self, box=True):
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (2,))
        self.action_space = gymnasium.spaces.Box(-1.0 if box else 0.0, 1.0, (2,))
        self.box = box

    def reset(self, *, seed=None, options=None):
        """Start with a wealth of 1."""
        super().reset(seed=seed)
        self.wealth, self.time = 1.0, 0
        return self._observe(), {}

    def step(self, action):
        """Consume, then default or let both assets grow."""
        return self.move(action, self.np_random.random(), self.np_random.normal())

    def move(self, action, default_noise, price_noise):
        """A step with a given uniform and a given normal number."""
        numbers = (0.5 * (float(a) + 1.0) if self.box else float(a) for a in action)
        share, fraction = (min(max(number, 0.0), 1.0) for number in numbers)
        target = self.wealth / (self.horizon - self.time)
        reward = fraction * self.wealth
        rest = self.wealth - reward
        default = default_noise < 0.0015
        if default:
            reward += (1.0 - share) * rest
        growth = 0.95 * 0.005 + 0.25 * math.sqrt(0.005) * price_noise
        self.wealth = 0.0 if default else rest * (1.0 + 0.05 * 0.005 + share * growth)
        self.time += 1
        ended = default or self.time >= self.horizon or self.wealth < 1e-4
        signal = max(target - reward, 0.0)
        return self._observe(), reward, ended, False, {"signal": signal, "cost": signal}

    def _observe(self):
        wealth = self.wealth / (1.0 + self.wealth)
        return np.array([self.time / self.horizon, wealth], np.float32)


class Bandit(gymnasium.Env):
    """Fig. 3's problem: one step, three arms."""

    horizon, discount = 1, 1.0

    def __init__(self, box=False):
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,))
        self.action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        """Nothing is seen."""
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        """Normal(1, 1), normal(4, 6) or Pareto(1.5)."""
        rng = self.np_random
        rewards = (1.0 + rng.normal(), 4.0 + 6.0 * rng.normal(), 1.0 + rng.pareto(1.5))
        reward, mean = rewards[int(action)], (1.0, 4.0, 3.0)[int(action)]
        signal = max(mean - reward, 0.0)
        return np.zeros(1, np.float32), reward, True, False, {"signal": signal, "cost": signal}


PROBLEMS = {"portfolio": Portfolio, "consumption": Consumption, "bandit": Bandit}
