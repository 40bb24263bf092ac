"""Agents: what is learnt under constraints, and how the multiplier moves."""

from downside.agents.actor_critic import ActorCritic, lagrangian, policy_step
from downside.agents.multiplier import PID, Ascent, FixedMultiplier, MultiplierRule

__all__ = [
    "PID",
    "ActorCritic",
    "Ascent",
    "FixedMultiplier",
    "MultiplierRule",
    "lagrangian",
    "policy_step",
]
