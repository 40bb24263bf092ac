"""What users may call a policy, as a function that acts: compiled, or on the host."""

import inspect
import random
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import Space, spaces
from jax.tree_util import Partial
from jaxtyping import Array

from downside.environments.episodes import Act
from downside.policies.base import Policy
from downside.training.host import HostAct

N_TRACES = 100


def compiled_act(policy: Any, observations: Space[Any], actions: Space[Any]) -> Act | None:
    """(obs, key) -> action, or None where the policy is Python that JAX cannot compile.

    A function that comes out differently each time it is traced draws its own random numbers: it
    would act the same way for ever once compiled, so it counts as Python too.

    >>> act = compiled_act(lambda obs: obs % 2, spaces.Discrete(9), spaces.Discrete(2))
    >>> int(act(jnp.asarray(5), jax.random.key(0)))
    1
    >>> compiled_act(lambda obs: 1 if obs > 3 else 0, spaces.Discrete(9), spaces.Discrete(2))
    """
    pair = _as_pair(policy)
    if pair is not None:
        return Partial(_sample, *pair)
    if _draws_by_itself(policy):
        return None
    act = Partial(_call, Partial(_with_randomness(policy)))
    obs = jax.tree.map(jnp.asarray, observations.sample())
    try:
        traces = [_trace(act, obs) for _ in range(N_TRACES)]
    except Exception:  # whatever Python does with a tracer; real values will show a real mistake
        return None
    if len(set(traces)) > 1:
        return None
    _check_kind(jax.eval_shape(act, obs, jax.random.key(0)), actions)
    return act


def host_act(policy: Any, actions: Space[Any]) -> HostAct:
    """(obs, generator) -> action, in NumPy; what a policy of ours draws is moved into a Box.

    >>> import numpy as np
    >>> host_act(lambda obs: 2, spaces.Discrete(3))(np.zeros(1), np.random.default_rng(0))
    2
    """
    pair = _as_pair(policy)
    if pair is None:
        return _with_randomness(policy)
    head, params = pair[0], np.asarray(pair[1])

    def act(obs: Any, rng: np.random.Generator) -> Any:
        action = head.sample(params, obs, head.draw(rng))
        if isinstance(actions, spaces.Box):
            return np.clip(action, actions.low, actions.high).astype(actions.dtype)
        return action

    return act


def check_actions(found: Any, actions: Space[Any]) -> None:
    """Refuse a stack of actions with one outside its space."""
    if actions.shape is None:  # a tuple or a dictionary, checked as it came
        return
    rows = np.asarray(found)
    if isinstance(actions, spaces.Box):
        inside = ((rows >= actions.low) & (rows <= actions.high)).reshape(len(rows), -1).all(1)
    else:
        inside = np.array([actions.contains(row.astype(actions.dtype)) for row in rows])
    if not inside.all():
        raise _illegal(rows[np.argmin(inside)], actions)


def _draws_by_itself(function: Callable[..., Any]) -> bool:
    """Whether a function refers to a generator of NumPy's or Python's, however rarely it draws."""
    try:
        names = inspect.getclosurevars(function)
    except TypeError:  # not a plain function
        return False
    used = [*names.nonlocals.values(), *names.globals.values()]
    generators = (np.random.Generator, np.random.RandomState, random.Random)
    numpy_random = any(value is np for value in used) and "random" in names.unbound
    found = any(isinstance(v, generators) or v is random or v is np.random for v in used)
    return found or numpy_random


def _trace(act: Act, obs: Any) -> str:
    """The program that a function becomes; wrapped anew, since JAX remembers old functions."""
    program = jax.make_jaxpr(lambda obs, key: act(obs, key))(obs, jax.random.key(0))
    return f"{program.jaxpr} {program.consts}"


def _check_kind(action: Any, actions: Space[Any]) -> None:
    """Refuse an action of another shape, or a fraction where a choice is due."""
    if not isinstance(action, jax.ShapeDtypeStruct) or action.shape != actions.shape:
        came = getattr(action, "shape", action)
        raise ValueError(
            f"the policy returned an action of shape {came}; "
            f"the action space {actions} has the shape {actions.shape}"
        )
    if isinstance(actions, spaces.Discrete) and not jnp.issubdtype(action.dtype, jnp.integer):
        raise ValueError(
            f"the policy returned an action of type {action.dtype}; "
            f"the action space {actions} needs a whole number"
        )


def _illegal(action: Any, actions: Space[Any]) -> ValueError:
    return ValueError(
        f"the policy returned the action {action}, which is outside the action space {actions}"
    )


def _as_pair(policy: Any) -> tuple[Policy, Any] | None:
    is_pair = isinstance(policy, tuple) and len(policy) == 2
    if is_pair and isinstance(policy[0], Policy):
        return policy[0], policy[1]
    if callable(policy) and not isinstance(policy, Policy):
        return None
    raise ValueError(
        f"policy is {policy!r}; give a function of the observation, a function of the observation "
        "and a source of randomness, or a pair (policy, parameters)"
    )


def _with_randomness(function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """Take functions of the observation alone as well."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # a builtin that hides its signature
        return lambda obs, source: function(obs)
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [p for p in parameters if p.kind in positional and p.default is p.empty]
    if len(needed) == 2:
        return function
    return lambda obs, source: function(obs)


def _sample(policy: Policy, params: Any, obs: Any, key: Array) -> Any:
    return policy.sample(params, obs, policy.draw(key))


def _call(function: Partial, obs: Any, key: Array) -> Any:
    return jnp.asarray(function(obs, key))
