"""Fresh episodes of a Gymnasium task, the same for every library."""

import gymnasium
import numpy as np

FIRST = 1_000_000  # seeds of the episodes; nobody trains on them


def score(task, act, n_episodes):
    """The mean return of ``act(observation)`` over fresh episodes."""
    env = gymnasium.make(task)
    returns = np.zeros(n_episodes)
    for i in range(n_episodes):
        observation, _ = env.reset(seed=FIRST + i)
        ended = False
        while not ended:
            observation, reward, terminated, truncated, _ = env.step(act(observation))
            returns[i] += reward
            ended = terminated or truncated
    return float(returns.mean())
