"""What an agent is made of where the user leaves it open, from the spaces of a Python environment.

Bounded observations need nothing but their bounds. Where an observation has no bounds, or does not
fill them, its size is measured once, by a thousand steps of random actions before learning, and
then stays fixed.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, final
from warnings import warn

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
from downside.environments.repeating import OTHERWISE, SEEDED, difference
from downside.environments.vectors import HostVector
from downside.policies.base import Policy
from downside.policies.spaces import policy_for
from downside.records import record, static
from downside.training.cutting import usual_limit
from downside.training.hosting import Hosting, alone
from downside.training.mean_reward import MeanReward, default_model
from downside.training.recorded import Hosted
from downside.training.trees import copied, empty, stack

N_SAMPLE = 1000
FEW_STEPS = 5
LONG_SECONDS = 20.0
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
    _check_seeded(alone(first))
    named |= {"discount": first.discount, "horizon": first.horizon}
    return Hosting(first, make, named, means=random_steps(alone(first), 2)[1])


def _check_seeded(host: HostEnvironment) -> None:
    """Say so where an environment does not repeat itself from its seed."""
    space = host.action_space
    space.seed(0)
    actions = [space.sample() for _ in range(FEW_STEPS)]

    def replay() -> list[Any]:
        shown: list[Any] = [copied(host.reset(seed=0))]
        for action in actions:
            obs, *others = host.advance(action)
            shown.append((copied(obs), *others))
            if others[1] or others[2]:
                break
        return shown

    when = difference(replay(), replay())
    if when is not None:
        warn(f"{OTHERWISE} ({when}); {SEEDED}", stacklevel=5)


def random_steps(host: HostEnvironment, n_steps: int) -> tuple[Any, bool]:
    """Observations under random actions, stacked; whether mean rewards come with the steps."""
    space = host.action_space
    space.seed(0)
    seen: list[Any] = []
    over, means, episode, quickest = True, False, 0, float("inf")
    for i in range(n_steps):
        begun = time.monotonic()
        if i == FEW_STEPS:
            _check_pace(n_steps, quickest)
        if over:
            seen.append(copied(host.reset(seed=episode)))
            episode += 1
        obs, _, terminated, truncated, mean = host.advance(space.sample())
        seen.append(copied(obs))
        over, means = terminated or truncated, mean is not None
        quickest = min(quickest, time.monotonic() - begun)
    return stack(seen), means


def _check_pace(n_steps: int, seconds: float) -> None:
    if n_steps * seconds > LONG_SECONDS:
        warn(
            f"the environment takes {seconds:.2g} seconds for a step, so the {n_steps:,} steps of "
            f"random actions that measure its observations take about {n_steps * seconds:.0f} "
            "seconds; give basis= or policy= to leave them out",
            stacklevel=6,
        )


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


def mean_reward_for(host: HostEnvironment | HostVector) -> MeanReward:
    """A model of r(s, a) for the spaces, learnt at a rate of a tenth.

    With numbered states and actions each cell has a mean of its own, and a smaller rate keeps the
    noise of single rewards out of it: a hundredth, or the cells / 10,000 where there are many. The
    sizes of what has no bounds are measured as those of the policy's observations are.
    """
    observations, actions = host.observation_space, host.action_space
    if isinstance(observations, spaces.Discrete) and isinstance(actions, spaces.Discrete):
        cells = int(observations.n) * int(actions.n)
        return default_model(observations, actions, None, min(max(cells / 10_000, 0.01), 0.1))
    seen = random_steps(alone(host), N_SAMPLE)[0]
    actions.seed(0)
    drawn = stack([copied(actions.sample()) for _ in jax.tree.leaves(seen)[0]])
    return default_model(observations, actions, (seen, drawn), rate=0.1)


def limit_on_host(host: HostEnvironment | HostVector) -> int | None:
    """The usual limit of an episode that no other limit ends, where we can begin it anew."""
    if isinstance(host, HostVector) and not host.resets_each:
        return None
    return usual_limit(host.discount, host.horizon or host.time_limit)


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
