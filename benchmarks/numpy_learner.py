"""NRCPO as one would write it first: a loop in Python over NumPy arrays.

    python -m benchmarks.numpy_learner JSON          {"problem": "bandit", "seconds": 2.0}

See `Process`. It learns as `c/learner.c` does, with the same settings.
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import digamma

from benchmarks.measuring import answer_turns
from benchmarks.peers import problems

CRITIC_STEP, POLICY_STEP, MULTIPLIER_STEP = 3e-4, 5e-3, 1e-3
FREQUENCIES = np.array([(i, j) for i in range(4) for j in range(4)])


def gibbs(preferences, rng):
    """An action with probability exp(preference), and one_hot(action) - pi."""
    p = np.exp(preferences - preferences.max())
    p /= p.sum()
    action = min(int(np.searchsorted(np.cumsum(p), rng.random())), p.size - 1)
    score = -p
    score[action] += 1.0
    return action, score


def shares(outputs, rng):
    """A normal and a Beta number, and the derivative of log pi in the four outputs.

    softplus of the last three makes the deviation above 0.6 and the shapes above 1.
    """
    small = np.exp(-np.abs(outputs[1:]))
    positive = np.maximum(outputs[1:], 0.0) + np.log1p(small)
    slopes = np.where(outputs[1:] > 0.0, 1.0, small) / (1.0 + small)
    width, shapes = 0.6 + positive[0], 1.0 + positive[1:]
    z, (x, y) = rng.normal(), rng.gamma(shapes)
    logs = np.log(np.array([x, y]) / (x + y))
    by_shapes = logs - digamma(shapes) + digamma(shapes.sum())
    by_positive = np.concatenate([[(z * z - 1.0) / width], by_shapes])
    action = np.array([outputs[0] + width * z, x / (x + y)])
    return action, np.concatenate([[z / width], slopes * by_positive])


@dataclass(frozen=True)
class Settings:
    """What differs between the problems."""

    env: type[Any]
    features: Callable[[Any], Any]
    choose: Callable[[Any, Any], Any]
    start: np.ndarray
    threshold: float
    period: int
    trace_decay: float
    pretraining: int


def _affine(obs):
    return np.concatenate([[1.0], obs])


def _waves(obs):
    return np.cos(np.pi * FREQUENCIES @ obs)


def _nothing(obs):
    return np.ones(1)


_SHAPES = np.zeros((4, 16))
_SHAPES[2:, 0] = 2.0, 30.0
SETTINGS = {
    "portfolio": Settings(
        problems.Portfolio, _affine, gibbs, np.zeros((11, 7)), 0.3, 200, 1.0, 1000
    ),
    "consumption": Settings(problems.Consumption, _waves, shares, _SHAPES, 0.1, 1000, 0.99, 0),
    "bandit": Settings(problems.Bandit, _nothing, gibbs, np.zeros((3, 1)), 1.0, 200, 1.0, 0),
}


class Learner:
    """Two SARSA(lambda) critics on compatible features, a multiplier, normalised natural steps."""

    def __init__(self, problem="portfolio", threshold=None, seed=0, pretraining=None):
        self.settings = settings = SETTINGS[problem]
        self.env, self.rng = settings.env(box=False), np.random.default_rng(seed)
        self.threshold = settings.threshold if threshold is None else threshold
        self.pretraining = settings.pretraining if pretraining is None else pretraining
        self.theta, self.multiplier = settings.start.copy(), 0.0
        n = self.theta.size + self.theta.shape[1]
        self.weights, self.trace = np.zeros((2, n)), np.zeros(n)  # rows: reward, risk
        self.steps = self.episodes = 0
        self.risk, self.returns, self.risks = 0.0, [], []
        self._begin(seed)

    def step(self):
        """Act, learn both values, and at times the multiplier and the policy."""
        obs, reward, ended, _, info = self.env.step(self.action)
        errors = np.array([reward, info["signal"]]) - self.weights @ self.features
        self.trace += self.features
        if not ended:
            self.action, self.features = self._choose(obs)
            errors += self.env.discount * self.weights @ self.features
        self.weights += CRITIC_STEP * np.outer(errors, self.trace)
        self.trace *= self.env.discount * self.settings.trace_decay
        self.risk += info["cost"]
        self.total += reward
        self.steps += 1
        if self.steps % self.settings.period == 0 and self.episodes >= self.pretraining:
            self._improve()
        if ended:
            excess = self.risk - self.threshold
            self.multiplier = max(0.0, self.multiplier + MULTIPLIER_STEP * excess)
            self.returns.append(self.total)
            self.risks.append(self.risk)
            self.episodes += 1
            self._begin()

    def _improve(self):
        n = self.theta.size
        direction = self.weights[0, :n] - self.multiplier * self.weights[1, :n]
        length = np.linalg.norm(direction)
        if length > 0:
            self.theta += POLICY_STEP / length * direction.reshape(self.theta.shape)

    def _begin(self, seed=None):
        self.risk, self.total = 0.0, 0.0
        self.trace[:] = 0.0
        self.action, self.features = self._choose(self.env.reset(seed=seed)[0])

    def _choose(self, obs):
        """An action, and [score | baseline] there."""
        x = self.settings.features(obs)
        action, score = self.settings.choose(self.theta @ x, self.rng)
        return action, np.concatenate([np.outer(score, x).ravel(), x])


def main(problem, seconds):
    """Answer with nanoseconds per step."""
    learner = Learner(problem)

    def measure():
        began, before = time.perf_counter(), learner.steps
        while time.perf_counter() < began + seconds:
            for _ in range(learner.settings.period):
                learner.step()
        return 1e9 * (time.perf_counter() - began) / (learner.steps - before)

    answer_turns(measure)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
