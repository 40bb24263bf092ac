"""How an agent was made, as plain values that can be stored beside what it has learnt."""

from collections.abc import Mapping
from typing import Any

from downside import critics, environments, signals
from downside.agents import PID, Ascent, FixedMultiplier
from downside.defaults import Clock
from downside.policies.plain import KNOWN as POLICIES
from downside.policies.plain import from_plain, to_plain
from downside.store import StoreError
from downside.training.features import StateActionFeatures
from downside.training.mean_reward import MeanReward

MISSING = "$missing"

KNOWN: Mapping[str, type[Any]] = POLICIES | {
    cls.__name__: cls
    for cls in (
        signals.Fixed,
        signals.Centralised,
        signals.TDError,
        signals.Constraint,
        signals.Shortfall,
        PID,
        Ascent,
        FixedMultiplier,
        Clock,
        MeanReward,
        StateActionFeatures,
        critics.GQ,
        critics.LSTD,
        critics.MonteCarlo,
        critics.MonteCarloLeastSquares,
        critics.RecursiveLSTD,
        critics.Sarsa,
        critics.TrueOnlineSarsa,
        environments.Bandit,
        environments.Consumption,
        environments.Portfolio,
        environments.Tree,
        environments.WithReturn,
    )
}


def write_recipe(made: dict[str, Any]) -> dict[str, Any]:
    """Every entry as plain values; one that is code is named as missing.

    >>> write_recipe({"kl": 0.1, "target": lambda step: 0.0})["kl"]
    0.1
    """
    return {name: _written(value) for name, value in made.items()}


def read_recipe(recipe: Any, given: dict[str, Any]) -> dict[str, Any]:
    """The entries as they were; those that are missing must be ``given``."""
    if not isinstance(recipe, dict):
        raise StoreError("it does not say how the agent was made")
    found: dict[str, Any] = {}
    for name, value in recipe.items():
        found[str(name)] = given[name] if name in given else _read(str(name), value, given)
    return found


def _written(value: Any) -> Any:
    if isinstance(value, dict) and "type" not in value:
        return {str(key): _written(item) for key, item in value.items()}
    try:
        return to_plain(value, KNOWN)
    except ValueError:
        return {"missing": repr(value)[:200]}


def _read(name: str, value: Any, given: dict[str, Any]) -> Any:
    if isinstance(value, dict) and "type" not in value:
        if set(value) == {"missing"}:
            raise StoreError(
                f"its {name} was code, {value['missing']}, which is not stored; give it again: "
                f"ds.load(path, {name}=...)"
            )
        return {
            str(key): given[key] if key in given else _read(str(key), item, given)
            for key, item in value.items()
        }
    return from_plain(value, KNOWN)
