"""Agents that were saved, or that were trained in a folder: made again from there."""

from functools import partial
from pathlib import Path
from typing import Any, get_args

from downside.agent import Agent, Precision
from downside.asking import Way
from downside.control import Made, assemble, spaces_of
from downside.defaults import hosting_for
from downside.policies.base import Policy
from downside.recipes import read_recipe
from downside.signals import Constraint
from downside.store import StoreError, read_newest
from downside.training.hosting import Hosting
from downside.training.keeping import saved_in


def load(path: str | Path, env: Any = None, **given: Any) -> Agent:
    """The agent that was saved at ``path``, or trained with ``folder=path``; it can go on learning.

    An environment of ours, or one that was given by its id, is made again. Otherwise give ``env``,
    a function that makes it or an instance. What else was code, such as a target function in
    ``bounds``, must be given by its name too: the error says which.

    >>> import tempfile
    >>> from downside.control import NAC
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     NAC("FrozenLake-v1", period=100).learn(200, progress_bar=False).save(folder + "/lake")
    ...     load(folder + "/lake").learn(100, progress_bar=False).steps
    300
    """
    found = read_newest(path)
    if "recipe" not in found.facts:
        raise StoreError(
            f"{path} was written by an earlier version, which did not note how its agent was made; "
            "make the agent with the same settings and folder= to go on"
        )
    try:
        recipe = read_recipe(found.facts["recipe"], given)
        named: Any = recipe.pop("env")
        made = Made(**recipe)
        _check(made)
        if "ours" in named:
            problem, hosting = named["ours"] if env is None else env, None
        else:
            source, options = _source(named, env, path)
            hosting = hosting_for(source, options, float(named["discount"]), named["horizon"])
            problem = source
            _check_spaces(named, hosting)
        agent = assemble(problem, hosting, made)
        return agent.restore(partial(saved_in, found))
    except StoreError as error:
        raise StoreError(f"{path} cannot be loaded: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise StoreError(
            f"{path} cannot be loaded: it is intact, but says something else than an agent does "
            f"({type(error).__name__}: {error})"
        ) from error


def _source(named: dict[str, Any], env: Any, path: str | Path) -> tuple[Any, dict[str, Any] | None]:
    if env is not None:
        return env, None
    if "id" in named:
        return str(named["id"]), dict(named["options"])
    what = named.get("factory") or named.get("instance")
    raise StoreError(
        f"its environment was given as {what}, which is code and not stored; "
        f"give it again: ds.load({str(path)!r}, env=...)"
    )


def _check_spaces(named: dict[str, Any], hosting: Hosting) -> None:
    """Refuse an environment that shows or takes something else than the one of the training."""
    if named.get("spaces", spaces_of(hosting)) != spaces_of(hosting):  # earlier versions told none
        first = hosting.first
        raise StoreError(
            f"the environment observes {first.observation_space} and takes {first.action_space}, "
            "and the one that it was trained in had other spaces; give env= and its arguments as "
            "they were"
        )


def _check(made: Any) -> None:
    bounds = [constraint for each in made.bounds for constraint in each]
    fine = (
        isinstance(made.policy, Policy)
        and all(isinstance(constraint, Constraint) for constraint in bounds)
        and made.way in get_args(Way)
        and made.precision in get_args(Precision)
        and all(type(n) is int for n in (made.seed, made.n_seeds, made.num_envs))
        and all(1 <= n <= 10**4 for n in (made.n_seeds, made.num_envs))
    )
    if not fine:
        raise ValueError("its settings are none")
