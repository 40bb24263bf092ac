"""One judge for all policies: our evaluator, on the same fresh episodes."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

import downside as ds
from downside.evaluation.running import evaluate_risk
from downside.exact import consumption as exact_consumption
from downside.exact.portfolio import concave_hull, hull_value, two_number_policies

KEY = jax.random.key(80_021)


class Judge:
    """Of policies for one problem.

    ``mean`` and ``lpm`` (order 1) are of the undiscounted return, as in the paper's figures,
    ``risk`` is the bounded proxy. The LPM is about the policy's own mean (portfolio) or the initial
    wealth (consumption). ``at equal risk`` holds the policy against what is known at its own risk:
    the discounted mean less that of the best two-number policies (portfolio), the share of the
    exact optimum (consumption).
    """

    def __init__(self, problem, n_episodes):
        self.problem, self.n_episodes = problem, n_episodes
        self.env = ds.Portfolio(discount=0.99) if problem == "portfolio" else ds.Consumption()
        if problem == "portfolio":
            self.target = self.about = ds.Centralised()
            known = two_number_policies(self.env, KEY, n_episodes)
            self._hull = concave_hull(known.proxy, known.discounted_mean)
        else:
            self.target, self.about = self.env.step_target, float(self.env.initial_wealth)

    def network(self, path, threshold):
        """A peer's network, from its arrays."""
        with np.load(path) as file:
            arrays = {name: file[name] for name in file.files}
        kind = (self.problem, str(arrays.pop("activation")), "log_std" in arrays)
        arrays = {name: jnp.asarray(x, jnp.float32) for name, x in arrays.items()}
        return self._both(lambda greedy: Partial(_network(kind, greedy), arrays), threshold)

    def ours(self, policy, theta, threshold):
        """One of our policies."""
        acts = {False: _sample, True: _mode}
        theta = jnp.asarray(theta)
        return self._both(lambda greedy: Partial(acts[greedy], policy, theta), threshold)

    def _both(self, make, threshold):
        greedy = self._numbers(make(True), threshold)
        named = {f"greedy {name}": value for name, value in greedy.items()}
        return self._numbers(make(False), threshold) | named

    def _numbers(self, act, threshold):
        bound = ds.Constraint(self.target, threshold)
        found = evaluate_risk(
            self.env, act, self.about, key=KEY, n_episodes=self.n_episodes, constraints=(bound,)
        )
        returns, risk = found.episodes.totals, found.bounds[0].value
        about = returns.mean() if self.problem == "portfolio" else self.about
        return {
            "mean": float(returns.mean()),
            "risk": risk,
            "lpm": float(ds.lower_partial_moment(returns, about, 1)),
            "bound met": bool(found.bounds[0].holds),
            "at equal risk": self._at_equal_risk(found.episodes.returns.mean(), risk),
        }

    def _at_equal_risk(self, mean, risk):
        if self.problem == "portfolio":
            return float(mean - hull_value(self._hull, risk))
        return float(mean / exact_consumption.optimum(self.env, risk).mean)


@cache
def _network(kind, greedy):
    """One function object for each kind of network, so that it is compiled once."""
    return partial(network_action, kind, greedy)


def network_action(kind, greedy, arrays, obs, key):
    """What a peer's policy does in our environment."""
    problem, activation, is_gaussian = kind
    x = obs if problem == "portfolio" else jnp.stack([obs[0] / 200.0, obs[1] / (1.0 + obs[1])])
    if "centre" in arrays:
        x = jnp.clip((x - arrays["centre"]) / arrays["scale"], -arrays["clip"], arrays["clip"])
    n_layers = sum(name.startswith("weights") for name in arrays)
    for i in range(n_layers):
        x = arrays[f"weights_{i}"] @ x + arrays[f"biases_{i}"]
        if i < n_layers - 1:
            x = jnp.tanh(x) if activation == "tanh" else jax.nn.relu(x)
    if not is_gaussian:
        return jnp.argmax(x) if greedy else jax.random.categorical(key, x)
    x = jnp.tanh(x) if "squashed" in arrays else x
    if not greedy:
        x = x + jnp.exp(arrays["log_std"]) * jax.random.normal(key, x.shape)
    shares = 0.5 * (jnp.clip(x, -1.0, 1.0) + 1.0)
    return jnp.round(10.0 * shares[0]).astype(int) if problem == "portfolio" else shares


def _sample(policy, theta, obs, key):
    return policy.sample(theta, obs, policy.draw(key))


def _mode(policy, theta, obs, key):
    return policy.mode(theta, obs)
