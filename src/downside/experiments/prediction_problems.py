"""The problems whose risk is predicted: environment, policy, features, target, exact answer."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array, Float

from downside.arrays import sample_index
from downside.bases import Fourier
from downside.environments import Consumption, Environment, Portfolio, Tabular, rollout
from downside.environments.base import Transition
from downside.environments.episodes import Act
from downside.exact import (
    constrained_optimum,
    risk_cumulants,
    start_value,
    state_distribution,
)
from downside.exact.consumption import evaluate_fixed
from downside.experiments.theory import random_mdp
from downside.signals import Centralised, Custom, Predictions, Proxy, Reward, Target

N_RANDOM_MDPS = 4
BUYING_FROM = 7
FRACTION = 0.01

# These programs are small: on a CPU more optimisation takes longer to compile and to run.
compiled = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 1})


@dataclass(frozen=True)
class Member:
    """One environment under one policy, with its exact proxy of order 1 and 2 at the start.

    ``errors`` are the standard errors of those answers: 0 but for the simulated portfolio.
    ``start`` is the mean of the features at the first step; predictions are linear in it.
    """

    env: Environment[Any]
    act: Act
    target: Target
    proxies: Float[np.ndarray, "2"]
    errors: Float[np.ndarray, "2"]
    start: Float[np.ndarray, " n"]

    @property
    def signals(self) -> tuple[Reward, Proxy, Proxy]:
        """What is predicted: the reward, and the proxy of order 1 and 2."""
        g, horizon = self.env.discount, self.env.horizon
        first, second = (Proxy(self.target, g, horizon, order) for order in (1, 2))
        return Reward(g), first, second


@dataclass(frozen=True)
class Problem:
    """Members of one kind, whose errors are pooled, and the features that all critics share.

    ``n_steps`` are learnt from at full scale, ``short_steps`` at the smaller ones.
    """

    name: str
    members: tuple[Member, ...]
    features: Partial
    n_features: int
    n_steps: int
    short_steps: int


PROBLEMS = (
    "random MDPs",
    "slippery CliffWalking",
    "slippery FrozenLake",
    "portfolio, uniform",
    "portfolio, buying",
    "consumption",
)


def make_problem(name: str, seed: int, *, n_episodes: int) -> Problem:
    """A problem by name; the portfolio's answers come from ``n_episodes`` fresh episodes."""
    if name == "random MDPs":
        return _random_mdps(name, np.random.default_rng(seed))
    if name == "slippery CliffWalking":
        return _gymnasium(
            name, "CliffWalking-v1", explore=0.3, n_steps=2**17, short_steps=3 * 2**12
        )
    if name == "slippery FrozenLake":
        return _gymnasium(name, "FrozenLake-v1", explore=0.1, n_steps=2**16, short_steps=3 * 2**12)
    if name == "consumption":
        return _consumption(name)
    least = {"portfolio, uniform": 0, "portfolio, buying": BUYING_FROM}[name]
    return _portfolio(name, least, n_episodes)


def _random_mdps(name: str, rng: np.random.Generator) -> Problem:
    """Eight states, two actions, three outcomes; one outcome in ten ends the episode."""
    members: list[Member] = []
    for _ in range(N_RANDOM_MDPS):
        mdp = random_mdp(rng, horizon=None, end_share=0.1, n_states=8)
        policy = rng.dirichlet(np.ones(2), 8)
        members.append(_tabular_member(mdp, policy, (mdp.start[:, None] * policy).reshape(-1)))
    features = Partial(_state_action, jnp.zeros((8, 2)))
    steps = {"n_steps": 2**14, "short_steps": 2**11}
    return Problem(name, tuple(members), features, n_features=16, **steps)


def _gymnasium(name: str, env: str, *, explore: float, n_steps: int, short_steps: int) -> Problem:
    """The best policy, which explores a little; one feature per state that can be visited.

    Features that are always 0 fill their number up to a multiple of 8: compiled loops over whole
    vector registers run several times as fast, and problems of one size share them.
    """
    mdp = Tabular.from_gymnasium(env, discount=0.95, is_slippery=True)
    policy = (1.0 - explore) * constrained_optimum(mdp, []).policy + explore / mdp.n_actions
    n_visited = 1 + int(np.flatnonzero(state_distribution(mdp, policy) > 0)[-1])
    n_features = 8 * -(-n_visited // 8)
    features = Partial(_state, jnp.zeros(n_features), jnp.asarray(n_visited))
    member = _tabular_member(mdp, policy, mdp.start[:n_features])
    return Problem(name, (member,), features, n_features, n_steps, short_steps)


def _tabular_member(mdp: Tabular, policy: np.ndarray, start: np.ndarray) -> Member:
    target = Centralised()
    exact = [
        start_value(mdp, policy, risk_cumulants(mdp, policy, target, order)) for order in (1, 2)
    ]
    act = Partial(_draw, jnp.asarray(policy, float))
    return Member(_on_device(mdp), act, target, np.array(exact), np.zeros(2), start)


def _on_device(mdp: Tabular) -> Tabular:
    """The same tables in the width of the simulation."""

    def settle(leaf: Any) -> Array:
        return jnp.asarray(leaf, float if np.asarray(leaf).dtype.kind == "f" else None)

    return jax.tree.map(settle, mdp)


def _draw(policy: Float[Array, "s a"], obs: Array, key: Array) -> Array:
    return sample_index(policy[obs], jax.random.uniform(key))


def _state_action(like: Float[Array, "s a"], obs: Array, action: Array, time: Array) -> Array:
    return like.at[obs, action].set(1.0).reshape(-1)


def _state(
    like: Float[Array, " s"], n_visited: Array, obs: Array, action: Array, time: Array
) -> Array:
    known = jnp.where(obs < n_visited, 1.0, 0.0)  # the goal has no feature
    return like.at[obs].set(known, mode="drop")


def _portfolio(name: str, least: int, n_episodes: int) -> Problem:
    """Orders drawn evenly from ``least`` to 10; [1, observation, order] times [1, time]."""
    env, act = Portfolio(), Partial(_order, jnp.asarray(least))
    mean, error = _simulate(env, act, n_episodes)
    features = Partial(_portfolio_features)
    start = _mean_start(env, features, jnp.arange(least, env.max_order + 1))
    member = Member(env, act, Centralised(), mean, error, start)
    return Problem(name, (member,), features, n_features=16, n_steps=2**16, short_steps=2**13)


def _order(least: Array, obs: Array, key: Array) -> Array:
    n_orders = Portfolio().max_order + 1 - least
    return least + jnp.floor(jax.random.uniform(key) * n_orders).astype(least.dtype)


def _portfolio_features(obs: Array, action: Array, time: Array) -> Array:
    env = Portfolio()
    order = action.astype(obs.dtype) / env.max_order
    now = jnp.concatenate([jnp.ones_like(obs[:1]), obs, order[None]])
    return jnp.concatenate([now, now * (1.0 - time.astype(obs.dtype) / env.horizon)])


def _mean_start(env: Environment[Any], features: Partial, actions: Array) -> np.ndarray:
    """The features of a start that is always the same, averaged over its actions."""

    @jax.jit
    def each(actions: Array) -> Array:
        _, obs = env.reset(env.draw(jax.random.key(0)))
        return jax.vmap(lambda action: features(obs, action, jnp.asarray(0)))(actions)

    return np.asarray(each(actions), float).mean(axis=0)


def _simulate(env: Portfolio, act: Act, n_episodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean discounted proxy of order 1 and 2 over fresh episodes, with standard errors."""
    sums = _shortfall_sums(env, act, jax.random.key(n_episodes), n_episodes)
    samples = np.stack([np.asarray(x, float) for x in sums])
    return samples.mean(1), samples.std(1, ddof=1) / np.sqrt(n_episodes)


@partial(compiled, static_argnums=3)
def _shortfall_sums(env: Portfolio, act: Act, key: Array, n_episodes: int) -> tuple[Array, ...]:
    return rollout(env, act, key, n_episodes, measure=_shortfalls).discounted


def _shortfalls(transition: Transition[Any]) -> tuple[Array, ...]:
    env = Portfolio()
    signals = (Proxy(Centralised(), env.discount, env.horizon, order) for order in (1, 2))
    return tuple(signal.cumulant(transition, Predictions()) for signal in signals)


def _consumption(name: str) -> Problem:
    """Everything at risk, 1% of the wealth consumed per step; the paper's Fourier features."""
    env = Consumption()
    act = Partial(_plan, jnp.asarray([1.0, FRACTION]))
    exact = np.array([evaluate_fixed(env, FRACTION, 1.0).risk, _squared_shortfall(env)])
    features = Partial(_consumption_features)
    start = _mean_start(env, features, act.args[0][None])
    member = Member(env, act, Custom(Partial(_consumption_target)), exact, np.zeros(2), start)
    return Problem(name, (member,), features, n_features=16, n_steps=2**15, short_steps=3 * 2**12)


def _plan(action: Array, obs: Array, key: Array) -> Array:
    return action


def _consumption_target(transition: Transition[Any]) -> Array:
    return Consumption().step_target(transition)


def _consumption_features(obs: Array, action: Array, time: Array) -> Array:
    wealth = obs[1]
    inputs = jnp.stack([obs[0] / Consumption().horizon, wealth / (1.0 + wealth)])
    return Fourier(low=[0.0, 0.0], high=[1.0, 1.0], order=3)(inputs)


def _squared_shortfall(env: Consumption) -> float:
    """The proxy of order 2 where nothing is liquid: sum_t (1/(T-t) - f)+^2 E[W_t^2, no default].

    W is multiplied by (1 - f)(1 + mu dt + sigma sqrt(dt) Z) at each step without default.
    """
    drift, volatility, step = (
        float(np.asarray(x)) for x in (env.drift, env.volatility, env.time_step)
    )
    growth = (1.0 - FRACTION) ** 2 * ((1.0 + drift * step) ** 2 + volatility**2 * step)
    time = np.arange(env.horizon)
    alive = ((1.0 - float(np.asarray(env.default_probability))) * growth) ** time
    missed = np.maximum(1.0 / (env.horizon - time) - FRACTION, 0.0)
    return float(np.sum(alive * missed**2))
