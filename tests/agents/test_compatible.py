"""Theorem 1: the weights of compatible critics are the natural gradient of the Lagrangian.

Exact in float64: the critics are least-squares fits over every state and action, weighted by
d(s) pi(a|s), and the gradient is taken by autodiff through the exact solution of the MDP.
"""

import math
from functools import cached_property
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from downside.bases import Custom, OneHot
from downside.environments import Bandit
from downside.exact import action_values, proxy, risk_cumulants, state_distribution
from downside.exact.bandit import bandit_arm_lpms, bandit_arm_means
from downside.policies import Gibbs
from downside.signals import Centralised, Fixed
from random_mdps import random_mdp

N_STATES, N_ACTIONS, MULTIPLIER = 5, 3, 0.7

# A Gibbs policy does not change when the weights of a feature move alike for all actions, so its
# score spans (actions - 1) x features directions only. What is left of the other singular values
# is rounding, below 1e-15 of the largest; those that count are above 0.1 of it in the features
# and above 0.03 in the Fisher matrix. The cuts lie far from both; `fit` checks the rank they leave.
FEATURE_CUT, FISHER_CUT = 1e-6, 1e-9


def aliased(obs):
    """States 0 and 3 look alike, and so do 1 and 4: no value function fits exactly."""
    xp = obs.__array_namespace__()
    number = (obs % 3).astype(float)
    return xp.stack([xp.ones_like(number), 0.4 * number - 0.3], axis=-1)


BASES = {"one-hot": OneHot(N_STATES), "aliased": Custom(aliased, ["1", "x"])}
TARGETS = {"fixed": Fixed(0.9), "centralised": Centralised()}
HORIZONS = {"endless": None, "4 steps": 4}
PROBLEMS = list(product(range(3), HORIZONS, BASES, TARGETS))


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module", params=PROBLEMS, ids=lambda names: "-".join(map(str, names)))
def problem(request):
    seed, horizon, basis, target = request.param
    with jax.enable_x64(True):
        return Problem(seed, HORIZONS[horizon], BASES[basis], TARGETS[target])


class Problem:
    """A random MDP and policy, and what is known of them exactly.

    Tables have the axes (time, state, action), one time if the horizon is not finite.
    """

    def __init__(self, seed, horizon, basis, target):
        rng = np.random.default_rng(seed)
        self.mdp = random_mdp(
            rng,
            horizon=horizon,
            discount=0.85,
            n_states=N_STATES,
            n_actions=N_ACTIONS,
            n_outcomes=3,
            reward_std=0.6,
        )
        self.policy = Gibbs(basis, N_ACTIONS)
        self.params = jnp.asarray(rng.normal(0.0, 0.5, self.policy.n_params))
        self.pi = np.asarray(probabilities(self.policy, self.params))
        self.costs = risk_cumulants(self.mdp, self.pi, target)

        tables = (-1, N_STATES, N_ACTIONS)
        d = state_distribution(self.mdp, self.pi).reshape(-1, N_STATES, 1)
        self.weights = d * self.pi
        self.values = [
            action_values(self.mdp, self.pi).reshape(tables),
            proxy(self.mdp, self.pi, target).reshape(tables),
        ]
        self.scores = each_action(self.policy.score, self.params)
        self.compatible = each_action(self.policy.compatible, self.params)

    @property
    def rank(self):
        return (N_ACTIONS - 1) * self.policy.basis.n_features

    def fit(self, features, values, rank):
        """The weights of least squares, the shortest of all that fit equally well."""
        root = np.sqrt(self.weights)[..., None]
        rows = (root * features).reshape(-1, features.shape[-1])
        aims = (root[..., 0] * values).ravel()
        solution, _, found, _ = np.linalg.lstsq(rows, aims, rcond=FEATURE_CUT)
        assert found == rank
        return solution

    def critics(self):
        return [self.fit(self.scores, values, self.rank) for values in self.values]

    def fisher(self):
        return np.einsum("tsa,sai,saj->ij", self.weights, self.scores, self.scores)

    @cached_property
    def exact_gradient(self):
        return np.asarray(jax.grad(self.lagrangian)(self.params))

    def lagrangian(self, params):
        """J_R - multiplier J_C at the start states, by the Bellman equation in JAX."""
        mdp, pi = self.mdp, probabilities(self.policy, params)
        follows = mdp.next_states[..., None] == np.arange(N_STATES)
        goes_on = mdp.discount * mdp.transitions * ~mdp.ends
        chain = jnp.einsum("sa,sat->st", pi, np.einsum("sak,sakt->sat", goes_on, follows))
        net = np.sum(mdp.transitions * (mdp.rewards - MULTIPLIER * self.costs), axis=-1)
        if mdp.horizon is None:
            v = jnp.linalg.solve(jnp.eye(N_STATES) - chain, jnp.sum(pi * net, axis=-1))
        else:
            v = jnp.zeros(N_STATES)
            for now in net[::-1]:
                v = jnp.sum(pi * now, axis=-1) + chain @ v
        return mdp.start @ v


def probabilities(policy, params):
    states, actions = jnp.arange(N_STATES), jnp.arange(N_ACTIONS)
    return jnp.exp(policy.log_prob(params, states[:, None], actions[None, :]))


def each_action(function, params):
    """A function of one observation and action, for all of them: (S, A, its length)."""
    over_actions = jax.vmap(function, (None, None, 0))
    over_states = jax.vmap(over_actions, (None, 0, None))
    return np.asarray(over_states(params, jnp.arange(N_STATES), jnp.arange(N_ACTIONS)))


def test_compatible_critics_give_the_exact_gradient(problem):
    w_q, w_rho = problem.critics()

    advantages = problem.scores @ w_q - MULTIPLIER * problem.scores @ w_rho
    gradient = np.einsum("tsa,sai,sa->i", problem.weights, problem.scores, advantages)

    exact = problem.exact_gradient
    assert np.linalg.norm(exact) > 0.01
    np.testing.assert_allclose(gradient, exact, rtol=0.0, atol=1e-8)


def test_weights_of_compatible_critics_are_the_natural_gradient(problem):
    w_q, w_rho = problem.critics()

    natural = np.linalg.pinv(problem.fisher(), FISHER_CUT, hermitian=True)
    natural = natural @ problem.exact_gradient

    np.testing.assert_allclose(w_q - MULTIPLIER * w_rho, natural, rtol=0.0, atol=1e-8)


def test_a_baseline_does_not_change_the_weights_of_the_score(problem):
    n_params, n_features = problem.policy.n_params, problem.policy.basis.n_features

    for values, alone in zip(problem.values, problem.critics(), strict=True):
        joint = problem.fit(problem.compatible, values, problem.rank + n_features)

        assert np.linalg.norm(joint[n_params:]) > 0.01
        change = np.linalg.norm(joint[:n_params] - alone)
        assert change < 1e-10 * np.linalg.norm(alone)


def fit_bandit(values):
    """The joint fit of score and baseline to the values of three arms, and the probabilities."""
    policy = Gibbs(OneHot(1), n_actions=3)
    params, obs, arms = jnp.asarray([0.3, -0.8, 0.6]), jnp.asarray(0), jnp.arange(3)
    features = np.asarray(jax.vmap(policy.compatible, (None, None, 0))(params, obs, arms))
    pi = np.exp(policy.log_prob(params, obs, arms))
    root = np.sqrt(pi)
    solution = np.linalg.lstsq(root[:, None] * features, root * values, rcond=FEATURE_CUT)[0]
    return solution[:3], solution[3], pi


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("target", [None, 2.3], ids=["centralised", "fixed"])
def test_the_weights_of_a_bandit_are_its_values_less_their_mean(target, order):
    """One state and a constant feature: w.score(a) + v = w_a - pi.w + v.

    It equals q(a) for w = q + any constant and v = pi.q; the shortest such w has the mean 0.
    """
    bandit = Bandit(mean_a=0.7, std_b=5.0, pareto_shape=2.5)

    for q in (bandit_arm_means(bandit), bandit_arm_lpms(bandit, target, order)):
        w, v, pi = fit_bandit(q)

        np.testing.assert_allclose(w, q - q.mean(), rtol=0.0, atol=1e-12)
        np.testing.assert_allclose(v, pi @ q, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize(
    ("order", "multiplier", "lpms"),
    [
        # a normal arm: std / sqrt(2 pi) and std^2 / 2; the Pareto arm by integration from 1 to 3
        (1, 2.0, [1 / math.sqrt(2 * math.pi), 6 / math.sqrt(2 * math.pi), 2 / math.sqrt(3)]),
        (2, 1.0, [0.5, 18.0, 8 * math.sqrt(3) - 12]),
    ],
)
def test_the_natural_gradient_of_the_papers_bandit_points_to_arm_c(order, multiplier, lpms):
    bandit = Bandit()
    w_q, _, _ = fit_bandit(bandit_arm_means(bandit))
    w_rho, _, _ = fit_bandit(bandit_arm_lpms(bandit, order=order))

    direction = w_q - multiplier * w_rho

    net = np.array([1.0, 4.0, 3.0]) - multiplier * np.array(lpms)
    np.testing.assert_allclose(direction, net - net.mean(), rtol=0.0, atol=1e-9)
    assert np.argmax(direction) == 2
