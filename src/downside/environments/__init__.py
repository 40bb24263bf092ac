"""Environments: the contract, the paper's four, and any finite MDP."""

from downside.environments.accumulating import WithReturn
from downside.environments.bandit import Bandit
from downside.environments.base import Environment, Noise, Transition
from downside.environments.consumption import Consumption
from downside.environments.episodes import EpisodeSums, rollout
from downside.environments.portfolio import Portfolio
from downside.environments.tabular import Tabular
from downside.environments.tree import Tree

__all__ = [
    "Bandit",
    "Consumption",
    "Environment",
    "EpisodeSums",
    "Noise",
    "Portfolio",
    "Tabular",
    "Transition",
    "Tree",
    "WithReturn",
    "rollout",
]
