"""What an agent is made of where the user leaves it open, from the spaces of a Python environment.

Bounded observations need nothing but their bounds. Where an observation has no bounds, or does not
fill them, its size is measured once, by a thousand steps of random actions before learning, and
then stays fixed.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, final

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from jaxtyping import Array, Float

from downside.bases import Basis, Scaled
from downside.bases.layout import FromSpace
from downside.bases.spaces import basis_for
from downside.environments.python import HostEnvironment, settled, wrap
from downside.environments.vectors import HostVector
from downside.policies.base import Policy
from downside.policies.spaces import policy_for
from downside.records import record, static
from downside.training.hosting import Hosting, alone
from downside.training.recorded import Hosted
from downside.training.trees import copied, empty, stack

N_SAMPLE = 1000
HIDDEN = (64, 64)

PolicyName = Literal["linear", "mlp"]


def hosting_for(
    env: Any, options: dict[str, Any] | None, discount: float | None, horizon: int | None
) -> Hosting:
    """Where copies of an environment come from, whether by id, by a function, or one as it is."""

    def host_of(made: Any) -> HostEnvironment | HostVector:
        if isinstance(made, VectorEnv):
            return HostVector(made, discount, horizon)
        return settled(wrap(lambda: made), discount, horizon)

    make: Callable[[], HostEnvironment | HostVector] | None = None
    if isinstance(env, str):
        make = lambda: host_of(gymnasium.make(env, **(options or {})))  # noqa: E731
        named: dict[str, Any] = {"id": env, "options": dict(options or {})}
    elif callable(env) and not isinstance(env, gymnasium.Env | VectorEnv):
        make = lambda: host_of(env(**(options or {})))  # noqa: E731
        named = {"factory": _name(env), "options": dict(options or {})}
    else:
        named = {"instance": str(env)}
        if options:
            raise ValueError(
                f"env_options are {options}, and the environment is made already; give its id"
            )
    first = make() if make else host_of(env)
    named |= {"discount": first.discount, "horizon": first.horizon}
    return Hosting(first, make, named, means=random_steps(alone(first), 2)[1])


def random_steps(host: HostEnvironment, n_steps: int) -> tuple[Any, bool]:
    """Observations under random actions, stacked; whether mean rewards come with the steps."""
    space = host.action_space
    space.seed(0)
    seen: list[Any] = []
    over, means, episode = True, False, 0
    for _ in range(n_steps):
        if over:
            seen.append(copied(host.reset(seed=episode)))
            episode += 1
        obs, _, terminated, truncated, mean = host.advance(space.sample())
        seen.append(copied(obs))
        over, means = terminated or truncated, mean is not None
    return stack(seen), means


def default_policy(
    host: HostEnvironment | HostVector, basis: Basis | None, name: PolicyName
) -> Policy:
    """A policy for the spaces, on this basis or a default one."""
    chosen, space = basis, host.observation_space
    if chosen is None:
        numbered = isinstance(space, spaces.Discrete)
        sample = None if numbered else random_steps(alone(host), N_SAMPLE)[0]
        chosen = widened(basis_for(space, sample, clipped=True), space)
    return policy_for(host.action_space, chosen, HIDDEN if name == "mlp" else ())


def widened(basis: FromSpace, space: spaces.Space[Any]) -> FromSpace:
    """With inputs scaled to a quarter of their bounds, where random actions saw little of these.

    At most ten times what was seen, as bounds may be far outside of what can happen.
    """
    inner = basis.basis
    if not (isinstance(space, spaces.Box) and isinstance(inner, Scaled) and inner.inputs):
        return basis
    half = (space.high.reshape(-1).astype(float) - space.low.reshape(-1)) / 2.0
    seen = np.asarray(inner.inputs.scale, float)
    known = np.where(np.isfinite(half), half / 4.0, seen)
    scale = np.clip(known, seen, 10.0 * seen).astype(np.float32)
    return replace(basis, basis=replace(inner, inputs=replace(inner.inputs, scale=scale)))


def problem_of(host: HostEnvironment | HostVector, num_envs: int) -> Hosted:
    """What learners must know of an environment on the host."""
    example = jax.tree.map(lambda x: x[0], empty(host.observation_space, 1))
    return Hosted(host.discount, example, host.horizon, num_envs)


@final
@record
class Clock:
    """Features of the time in a problem with a horizon: t/T and its square.

    >>> Clock(10)(None, jnp.asarray(5)).tolist()
    [0.5, 0.25]
    """

    horizon: int = static()

    def __call__(self, obs: Any, time: Any) -> Float[Array, " 2"]:
        """Two numbers."""
        share = time / self.horizon
        return jnp.stack([share, share**2])


def _name(factory: Any) -> str:
    return f"{getattr(factory, '__module__', '')}.{getattr(factory, '__qualname__', factory)}"
