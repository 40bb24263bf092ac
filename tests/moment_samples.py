"""Samples whose partial moments are easily found by other means."""

import numpy as np

SAMPLES = np.array([4.0, 1.0, -2.0, 2.5, -1.5, 7.0])
WEIGHTS = np.array([2.0, 1.0, 3.0, 1.0, 2.0, 1.0])
GRID = np.array([[[0.3, -1.2], [2.0, 0.7]], [[-0.4, 1.1], [-3.0, 0.2]], [[1.6, -0.9], [0.5, 2.2]]])
ORDERS = [0, 0.4, 1, 1.5, 2, 3]


def by_loop(samples, target, order, weights):
    """E[((target - X)+)^order], one sample at a time."""
    total = 0.0
    for x, w in zip(samples, weights, strict=True):
        if x < target:
            total += w * (target - x) ** order
    return total / sum(weights)
