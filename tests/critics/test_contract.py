"""What every critic promises. A new critic is one line in CRITICS."""

from functools import partial
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

from downside.critics import (
    GQ,
    LSTD,
    MonteCarlo,
    MonteCarloLeastSquares,
    RecursiveLSTD,
    Sarsa,
    TrueOnlineSarsa,
)
from downside.exact import action_values, risk_cumulants
from downside.signals import Centralised, Proxy, Reward
from downside.training.prediction import Prediction, run_prediction, start_prediction
from random_mdps import random_mdp

CRITICS = {
    "sarsa": Sarsa(),
    "sarsa, traces": Sarsa(trace_decay=0.7),
    "sarsa, replacing": Sarsa(trace_decay=0.7, trace="replacing"),
    "true online": TrueOnlineSarsa(trace_decay=0.7),
    "gq": GQ(trace_decay=0.4, correction=0.5),
    "lstd": LSTD(trace_decay=0.5, ridge=1e-6),
    "recursive lstd": RecursiveLSTD(trace_decay=0.5, ridge=1e-3),
    "monte-carlo": MonteCarlo(),
    "monte-carlo, least squares": MonteCarloLeastSquares(ridge=1e-6),
}
each_critic = pytest.mark.parametrize("critic", CRITICS.values(), ids=CRITICS.keys())


DECAY = {"sarsa": 0.0, "gq": 0.4, "lstd": 0.5, "recursive lstd": 0.5, "true online": 0.7}
DECAY |= {"sarsa, traces": 0.7, "monte-carlo": 1.0, "monte-carlo, least squares": 1.0}


@pytest.mark.slow
@each_critic
def test_one_hot_predictions_are_the_exact_values_of_reward_and_risk(critic):
    # 32 independent learners, 20,000 steps each: the mean weights within 4 standard errors (and
    # 0.002 for the bias that a finite run leaves); fails by chance once in 2,000 runs.
    mdp, policy = small_problem()
    exact = np.stack(
        [
            action_values(mdp, policy).reshape(-1),
            action_values(mdp, policy, risk_cumulants(mdp, policy, Centralised())).reshape(-1),
        ]
    )

    mean, error = learn_many(critic, mdp, policy, np.eye(4))

    assert np.all(np.abs(mean - exact) < 4 * error + 0.002)


@pytest.mark.slow
@pytest.mark.parametrize("name", DECAY)
def test_features_that_cannot_represent_the_answer_give_the_td_fixed_point(name):
    # Two features for four state-action pairs. With M the discounted chain of pairs and D their
    # stationary distribution (episodes one after the other), the trace makes the fixed point
    # X' D (I - decay M)^-1 (I - M) X w = X' D (I - decay M)^-1 c.
    mdp, policy = small_problem()
    features = np.array([[1.0, 0.3], [1.0, -0.8], [1.0, 1.1], [1.0, 0.5]])
    chain, distribution = chain_of_pairs(mdp, policy)
    spread = np.linalg.inv(np.eye(4) - DECAY[name] * chain)
    left = features.T @ np.diag(distribution) @ spread
    cumulants = np.stack(
        [
            np.sum(mdp.transitions * table, -1).reshape(-1)
            for table in (mdp.rewards, risk_cumulants(mdp, policy, Centralised()))
        ]
    )
    exact = np.linalg.solve(left @ (np.eye(4) - chain) @ features, left @ cumulants.T).T

    mean, error = learn_many(CRITICS[name], mdp, policy, features)

    assert np.all(np.abs(mean - exact) < 4 * error + 0.005)


def small_problem():
    rng = np.random.default_rng(3)
    mdp = random_mdp(rng, horizon=None, discount=0.8, n_states=2, n_outcomes=3, end_share=0.3)
    return mdp, np.full((2, 2), 0.5)


def chain_of_pairs(mdp, policy):
    """g P(s', a' and the episode goes on | s, a), and the stationary distribution with restarts."""
    n = mdp.n_states * mdp.n_actions
    going_on, restarting = np.zeros((n, n)), np.zeros((n, n))
    for s, a, k in np.ndindex(mdp.transitions.shape):
        p = mdp.transitions[s, a, k]
        if mdp.ends[s, a, k]:
            restarting[s * 2 + a] += p * (mdp.start[:, None] * policy).reshape(-1)
        else:
            after = int(mdp.next_states[s, a, k])
            going_on[s * 2 + a, after * 2 : after * 2 + 2] += p * policy[after]
    whole = going_on + restarting
    values, vectors = np.linalg.eig(whole.T)
    stationary = np.real(vectors[:, np.argmax(np.real(values))])
    return float(mdp.discount) * going_on, stationary / stationary.sum()


def pair_features(table, obs, action, time):
    return jax.nn.one_hot(obs * 2 + action, 4) @ table


def choose(policy, obs, key):
    return jax.random.choice(key, 2, p=policy[obs])


def decaying(steps):
    return 0.5 / (1.0 + steps.astype(float) / 100.0)


def learn_many(critic, mdp, policy, features, n_seeds=32, n_steps=20_000):
    """Mean weights of independent learners, and their standard errors."""
    problem = Prediction(
        env=mdp,
        act=Partial(choose, jnp.asarray(policy, jnp.float32)),
        features=Partial(pair_features, jnp.asarray(features, jnp.float32)),
        signals=(Reward(mdp.discount), Proxy(Centralised(), mdp.discount)),
        critic=critic,
        step_size=Partial(decaying),
        n_features=features.shape[1],
    )
    weights = np.asarray(_learn(problem, jax.random.split(jax.random.key(0), n_seeds), n_steps))
    return weights.mean(0), weights.std(0, ddof=1) / np.sqrt(n_seeds)


@partial(jax.jit, static_argnames="n_steps")
def _learn(problem, keys, n_steps):
    def one(key):
        start_key, run_key = jax.random.split(key)
        start = start_prediction(problem, start_key)
        state = run_prediction(problem, start, run_key, n_steps)
        return problem.critic.weights(state.critic)

    return jax.vmap(one)(keys)


@each_critic
def test_rows_do_not_touch_each_other(critic):
    rng = np.random.default_rng(1)
    x, y = rng.integers(2, size=(2, 6, 3)).astype(np.float32)  # binary, for replacing traces
    cumulants = rng.normal(size=(6, 2)).astype(np.float32)
    discounts = np.array([[0.9, 0.5]] * 5 + [[0.0, 0.0]], np.float32)

    def run(rows):
        state = critic.init(3, len(rows))
        for t in range(6):
            step = (x[t], cumulants[t, rows], discounts[t, rows], y[t])
            state, _ = critic.update(state, *map(jnp.asarray, step), 0.05)
        return np.asarray(critic.weights(state))

    together = run([0, 1])
    assert np.allclose(together[0], run([0])[0], atol=1e-5)
    assert np.allclose(together[1], run([1])[0], atol=1e-5)


@each_critic
def test_the_same_code_runs_under_jit_vmap_and_scan(critic):
    x = jnp.array([1.0, 0.0, 1.0])

    def run(step_size, cumulants):
        def step(state, c):
            return critic.update(state, x, c[None], jnp.array([0.5]), x[::-1], step_size)

        return critic.weights(jax.lax.scan(step, critic.init(3, 1), cumulants)[0])

    cumulants = jnp.array([[0.3, -1.0], [2.0, 0.4]])
    both = jax.jit(jax.vmap(run))(jnp.array([0.1, 0.2]), cumulants)
    alone = [run(size, c) for size, c in zip((0.1, 0.2), cumulants, strict=True)]
    assert np.allclose(both, np.stack(alone), atol=1e-5)


@each_critic
def test_a_cut_bootstraps_and_starts_afresh(critic):
    # A chain 0 -> 1 -> 1 -> ..., reward 1 in each state, discount 0.5: both values are 2. Every
    # episode is cut after one step in state 1; a critic that took that for an end would learn 1.
    one, two = jnp.eye(2)
    discount = jnp.array([0.5])

    def episode(state, step_size):
        state, _ = critic.update(state, one, jnp.ones(1), discount, two, step_size)
        state, _ = critic.update(state, two, jnp.ones(1), discount, two, step_size)
        return critic.cut(state, two, step_size), None

    sizes = 0.3 / (1.0 + jnp.arange(3000.0) / 300.0)
    state, _ = jax.jit(lambda: jax.lax.scan(episode, critic.init(2, 1), sizes))()

    assert np.allclose(critic.weights(state), 2.0, atol=0.05)


def test_sarsa_is_a_plain_loop_step_by_step():
    rng = np.random.default_rng(7)
    features = rng.normal(size=(9, 3))
    cumulants, discounts = rng.normal(size=(8, 2)), np.tile([[0.9], [0.6]], 8).T.copy()
    discounts[3] = 0.0
    weights, trace = np.zeros((2, 3)), np.zeros((2, 3))
    with jax.enable_x64(True):
        critic = Sarsa(trace_decay=0.8)
        state = critic.init(3, 2)
        for t, (x, next_x) in enumerate(pairwise(features)):
            step = (x, cumulants[t], discounts[t], next_x)
            state, _ = critic.update(state, *map(jnp.asarray, step), 0.05)
            for k in range(2):  # the textbook's order: decay, add, learn
                error = cumulants[t, k] + discounts[t, k] * weights[k] @ next_x - weights[k] @ x
                decay = 0.8 * (discounts[t - 1, k] if t else 0.0)
                trace[k] = decay * trace[k] + x
                weights[k] = weights[k] + 0.05 * error * trace[k]
            assert np.allclose(state.weights, weights, atol=1e-12)


def test_one_trace_serves_all_signals_of_one_discount():
    rng = np.random.default_rng(8)
    rows = [Sarsa(0.8), Sarsa(0.8, one_discount=True)]
    states = [critic.init(3, 2) for critic in rows]
    for discount in (0.9, 0.6, 0.0, 0.9, 0.7):
        x, next_x, cumulants = (jnp.asarray(rng.normal(size=n)) for n in (3, 3, 2))
        step = (x, cumulants, jnp.full(2, discount), next_x, 0.05)
        states = [critic.update(s, *step)[0] for critic, s in zip(rows, states, strict=True)]
    assert states[1].trace.shape == (1, 3)
    assert states[0].weights.tolist() == states[1].weights.tolist()
    with pytest.raises(
        ValueError, match=r"the discounts are \[0.5, 0.25\].*leave one_discount out"
    ):
        rows[1].update(states[1], x, cumulants, jnp.array([0.5, 0.25]), next_x, 0.05)


def test_replacing_traces_do_not_grow():
    critic = Sarsa(trace_decay=1.0, trace="replacing")
    state = critic.init(2, 1)
    x = jnp.array([1.0, 0.0])
    for _ in range(3):
        state, _ = critic.update(state, x, jnp.ones(1), jnp.array([0.5]), x, 0.1)
    assert state.trace.tolist() == [[0.5, 0.0]]


def online_forward_view(features, cumulants, discount, decay, step_size):
    """Weights after the last step of the online lambda-return algorithm, from its definition.

    At horizon h every state t < h is updated towards the return cut at h:
    sum_n of (1 - decay) decay^(n-1) G_t^(n) with the rest of the weight on G_t^(h-t), where the
    values used are those that were current when their state was reached.
    """
    n = features.shape[1]
    latest = [np.zeros(n)]  # latest[h]: the weights of horizon h, after all its updates
    for h in range(1, len(cumulants) + 1):
        weights = np.zeros(n)
        for t in range(h):
            steps = h - t
            total, weight_left = 0.0, 1.0
            for i in range(1, steps + 1):
                partial = sum(discount**j * cumulants[t + j] for j in range(i))
                value = discount**i * features[t + i] @ latest[t + i - 1]
                share = weight_left * (1.0 - decay) if i < steps else weight_left
                total += share * (partial + value)
                weight_left *= decay
            weights = weights + step_size * (total - weights @ features[t]) * features[t]
        latest.append(weights)
    return latest[-1]


def test_true_online_is_its_online_forward_view_step_by_step():
    rng = np.random.default_rng(9)
    features, cumulants = rng.normal(size=(7, 3)), rng.normal(size=6)
    with jax.enable_x64(True):
        critic = TrueOnlineSarsa(trace_decay=0.6)
        state = critic.init(3, 1)
        for t, (x, next_x) in enumerate(pairwise(features)):
            step = (x, cumulants[t : t + 1], np.array([0.9]), next_x)
            state, _ = critic.update(state, *map(jnp.asarray, step), 0.1)
            expected = online_forward_view(features[: t + 2], cumulants[: t + 1], 0.9, 0.6, 0.1)
            assert np.allclose(state.weights[0], expected, atol=1e-12)


def test_recursive_lstd_is_batch_lstd_at_every_step():
    rng = np.random.default_rng(2)
    features, cumulants = rng.normal(size=(12, 4)), rng.normal(size=(11, 2))
    with jax.enable_x64(True):
        options = {"trace_decay": 0.6, "ridge": 0.3, "forgetting": 1.0}
        batch, recursive = LSTD(**options), RecursiveLSTD(**options)
        states = [critic.init(4, 2) for critic in (batch, recursive)]
        for t, (x, next_x) in enumerate(pairwise(features)):
            step = (x, cumulants[t], np.array([0.9, 0.5]) * (t != 5), next_x)
            for i, critic in enumerate((batch, recursive)):
                states[i], _ = critic.update(states[i], *map(jnp.asarray, step), 0.0)
            assert np.allclose(batch.weights(states[0]), recursive.weights(states[1]), atol=1e-9)


def test_lstd_of_decay_one_is_monte_carlo_least_squares():
    rng = np.random.default_rng(4)
    features, cumulants = rng.normal(size=(15, 3)), rng.normal(size=(15, 1))
    with jax.enable_x64(True):
        critics = [LSTD(trace_decay=1.0, ridge=0.2), MonteCarloLeastSquares(ridge=0.2)]
        states = [critic.init(3, 1) for critic in critics]
        for t in range(15):
            discount = np.array([0.0 if t % 5 == 4 else 0.8])  # three episodes of five steps
            step = (features[t], cumulants[t], discount, features[(t + 1) % 15])
            for i, critic in enumerate(critics):
                states[i], _ = critic.update(states[i], *map(jnp.asarray, step), 0.0)
        first, second = (c.weights(s) for c, s in zip(critics, states, strict=True))
        assert np.allclose(first, second, atol=1e-10)
        returns = [
            sum(0.8 ** (j - t) * cumulants[j, 0] for j in range(t, 5 * (t // 5) + 5))
            for t in range(15)
        ]
        normal = features.T @ features + 0.2 * np.eye(3)
        assert np.allclose(second[0], np.linalg.solve(normal, features.T @ returns), atol=1e-10)


def test_gq_converges_on_bairds_counter_example_where_plain_td_diverges():
    # Seven states; "solid" leads to the last, "dashed" to one of the others. Behaviour takes solid
    # with probability 1/7, the target always; rewards are 0. What gradient corrections drive to 0
    # is the projected Bellman error g' (X' D X)^+ g with g = X' D delta.
    rng = np.random.default_rng(6)
    states = np.zeros((7, 8))
    states[np.arange(6), np.arange(6)], states[:6, 7] = 2.0, 1.0
    states[6, 6], states[6, 7] = 1.0, 2.0
    n_steps = 20_000
    solid = rng.random(n_steps) < 1 / 7
    visited = np.where(solid, 6, rng.integers(0, 6, n_steps))
    x = jnp.asarray(states[np.concatenate([[0], visited[:-1]])], jnp.float32)
    next_x = jnp.asarray(states[6], jnp.float32)
    ratios = jnp.asarray(np.where(solid, 7.0, 0.0), jnp.float32)
    start = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 10.0, 1.0], np.float32)

    def learn(critic):
        def step(state, inputs):
            features, ratio = inputs
            step_size = 0.005 * ratio
            nothing, discount = jnp.zeros(1), jnp.array([0.99])
            return critic.update(state, features, nothing, discount, next_x, step_size, ratio)

        initial = critic.init(8, 1)
        object.__setattr__(initial, "weights", jnp.asarray(start)[None])
        state, _ = jax.lax.scan(step, initial, (x, ratios))
        return np.asarray(critic.weights(state)[0], float)

    def projected_error(weights):
        values = states @ weights
        gradient = states.T @ (0.99 * values[6] - values) / 7
        return gradient @ np.linalg.pinv(states.T @ states / 7) @ gradient

    plain, corrected = learn(Sarsa()), learn(GQ(correction=10.0))
    assert not np.linalg.norm(plain) < 1000 * np.linalg.norm(start)
    assert projected_error(corrected) < 0.01 * projected_error(start)


@pytest.mark.parametrize(
    ("make", "advice"),
    [
        (lambda: Sarsa(trace_decay=1.5), r"trace_decay is 1.5; a probability lies in \[0, 1\]"),
        (lambda: LSTD(ridge=0.0), "ridge is 0.0; it must be finite and above 0"),
        (lambda: RecursiveLSTD(forgetting=1.2), "forgetting is 1.2"),
        (lambda: GQ(correction=-1.0), "correction is -1.0"),
    ],
)
def test_bad_options_are_refused(make, advice):
    with pytest.raises(ValueError, match=advice):
        make()
