"""Critics: linear predictions of any signals, learnt step by step."""

from downside.critics.base import Critic
from downside.critics.expected import expected_features
from downside.critics.gq import GQ
from downside.critics.lstd import LSTD, RecursiveLSTD
from downside.critics.monte_carlo import MonteCarlo, MonteCarloLeastSquares
from downside.critics.sarsa import Sarsa
from downside.critics.true_online import TrueOnlineSarsa

__all__ = [
    "GQ",
    "LSTD",
    "Critic",
    "MonteCarlo",
    "MonteCarloLeastSquares",
    "RecursiveLSTD",
    "Sarsa",
    "TrueOnlineSarsa",
    "expected_features",
]
