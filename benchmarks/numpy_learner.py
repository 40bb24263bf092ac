"""NRCPO on the portfolio as one would write it first: a loop in Python over NumPy arrays.

    python -m benchmarks.numpy_learner JSON          {"seconds": 2.0}, see `Process`

The settings are those of the preset "figure", as in `portfolio.c`.
"""

import json
import sys
import time

import numpy as np

from benchmarks.measuring import answer_turns
from benchmarks.peers.problems import Portfolio

PERIOD, CRITIC_STEP, POLICY_STEP, MULTIPLIER_STEP = 200, 3e-4, 5e-3, 1e-3


class Learner:
    """Two SARSA(1) critics on compatible features, a multiplier, normalised natural steps."""

    def __init__(self, threshold=0.3, seed=0, pretraining=1000):
        self.env, self.rng = Portfolio(), np.random.default_rng(seed)
        self.threshold, self.pretraining = threshold, pretraining
        self.theta, self.multiplier = np.zeros((11, 7)), 0.0
        self.weights, self.trace = np.zeros((2, 84)), np.zeros(84)  # rows: reward, risk
        self.steps = self.episodes = 0
        self.risk, self.returns, self.risks = 0.0, [], []
        self._begin(seed)

    def step(self):
        """Act, learn both values, and at times the multiplier and the policy."""
        obs, reward, ended, _, info = self.env.step(self.action)
        action, features = self._choose(obs)
        discount = 0.0 if ended else self.env.discount
        signals = np.array([reward, info["signal"]])
        errors = signals + self.weights @ (discount * features - self.features)
        self.trace += self.features
        self.weights += CRITIC_STEP * np.outer(errors, self.trace)
        self.trace *= discount
        self.action, self.features = action, features
        self.risk += info["cost"]
        self.total += reward
        self.steps += 1
        if self.steps % PERIOD == 0 and self.episodes >= self.pretraining:
            direction = self.weights[0, :77] - self.multiplier * self.weights[1, :77]
            length = np.linalg.norm(direction)
            if length > 0:
                self.theta += POLICY_STEP / length * direction.reshape(11, 7)
        if ended:
            excess = self.risk - self.threshold
            self.multiplier = max(0.0, self.multiplier + MULTIPLIER_STEP * excess)
            self.returns.append(self.total)
            self.risks.append(self.risk)
            self.episodes += 1
            self._begin()

    def _begin(self, seed=None):
        self.risk, self.total = 0.0, 0.0
        self.action, self.features = self._choose(self.env.reset(seed=seed)[0])

    def _choose(self, obs):
        """An action, and [score | baseline] there."""
        x = np.concatenate([[1.0], obs])
        logits = self.theta @ x
        p = np.exp(logits - logits.max())
        p /= p.sum()
        action = min(int(np.searchsorted(np.cumsum(p), self.rng.random())), 10)
        surprise = -p
        surprise[action] += 1.0
        return action, np.concatenate([np.outer(surprise, x).ravel(), x])


def main(seconds):
    """Answer with nanoseconds per step."""
    learner = Learner()

    def measure():
        began, before = time.perf_counter(), learner.steps
        while time.perf_counter() < began + seconds:
            for _ in range(PERIOD):
                learner.step()
        return 1e9 * (time.perf_counter() - began) / (learner.steps - before)

    answer_turns(measure)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
