import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from gymnasium import spaces
from jax.tree_util import Partial

from downside.bases import OneHot
from downside.bases.spaces import basis_for
from downside.critics import LSTD, RecursiveLSTD, Sarsa
from downside.environments import Bandit, Portfolio
from downside.environments.gymnasium import GymnasiumEnv
from downside.estimation import estimate_risk
from downside.exact import risk_cumulants, start_value
from downside.policies import Gibbs
from downside.signals import Centralised, Fixed, TDError
from downside.training.mean_reward import MeanReward
from random_mdps import random_mdp, random_policy

SHORT = {"total_timesteps": 4000, "n_seeds": 8, "n_eval_episodes": 2000, "progress_bar": False}
TINY = {"total_timesteps": 100, "n_seeds": 2, "n_eval_episodes": 10, "progress_bar": False}


def choose(policy, obs, key):
    return jax.random.choice(key, policy.shape[1], p=policy[obs])


def within(interval, exact, bias=0.0):
    """Within 4 standard errors of a mean over 8 seeds (2.36 of them are the half-width)."""
    return abs(interval.value - exact) < 4 / 2.36 * (interval.high - interval.value) + bias


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "horizon"),
    [(Fixed(1.3), None), (Fixed(1.3), 4), (Centralised(), 4), (TDError(), None)],
)
def test_the_learnt_and_the_fresh_proxy_are_the_exact_one(target, horizon):
    # 4 standard errors from 8 seeds, and 0.01 for the bias of short runs. Without the 0.01, four
    # cases would fail by chance once in 45 runs (Student, 7 degrees); with it they do not.
    rng = np.random.default_rng(8)
    mdp = random_mdp(rng, horizon=horizon, discount=0.8, reward_std=0.3, end_share=0.2)
    policy = random_policy(rng, mdp)
    act = Partial(choose, jnp.asarray(policy, jnp.float32))

    risk = estimate_risk(mdp, act, target=target, **SHORT)

    exact = start_value(mdp, policy, risk_cumulants(mdp, policy, target))
    assert within(risk.learnt, exact, bias=0.01)
    assert abs(risk.fresh.proxy.value - exact) < 0.05 * exact + 0.01


@pytest.mark.slow
def test_a_python_policy_in_a_gymnasium_environment_has_the_same_risk():
    rng = np.random.default_rng(5)
    mdp = random_mdp(rng, horizon=None, discount=0.8, reward_std=0.3, end_share=0.3)
    policy = np.eye(mdp.n_actions)[rng.integers(mdp.n_actions, size=mdp.n_states)]
    table = policy.argmax(axis=1).tolist()

    risk = estimate_risk(
        GymnasiumEnv(mdp),
        lambda obs: table[obs],
        target=0.7,
        discount=0.8,
        **{**SHORT, "total_timesteps": 2000},
    )

    exact = start_value(mdp, policy, risk_cumulants(mdp, policy, Fixed(0.7)))
    assert within(risk.learnt, exact, bias=0.01)
    assert abs(risk.fresh.proxy.value - exact) < 0.06 * exact


@pytest.mark.slow
def test_a_python_function_that_draws_its_own_numbers_is_not_frozen_when_compiled():
    # Uniform orders have the proxy 0.4523; a constant order between 0.08 and 1.39.
    rng = np.random.default_rng(0)
    options = {**SHORT, "total_timesteps": 2000, "n_seeds": 2, "n_eval_episodes": 300}
    risk = estimate_risk(
        Portfolio(), lambda obs: int(rng.integers(11)), target=Centralised(), **options
    )
    assert abs(risk.fresh.proxy.value - 0.4523) < 0.12


@pytest.mark.slow
@pytest.mark.parametrize("critic", [Sarsa(0.5), RecursiveLSTD(0.5), LSTD(1.0)], ids=repr)
def test_a_policy_of_ours_can_be_averaged_over_the_next_action(critic):
    rng = np.random.default_rng(2)
    mdp = random_mdp(rng, horizon=None, discount=0.7, reward_std=0.2, end_share=0.2)
    head = Gibbs(OneHot(mdp.n_states), mdp.n_actions)
    params = rng.normal(size=head.n_params).astype(np.float32)
    schedule = optax.exponential_decay(0.3, transition_steps=1000, decay_rate=0.3)

    risk = estimate_risk(
        mdp, (head, params), target=0.9, critic=critic, step_size=schedule, expected=True, **SHORT
    )

    every = np.arange(mdp.n_actions)
    policy = np.stack(
        [np.exp([head.log_prob(params, s, a) for a in every]) for s in range(mdp.n_states)]
    )
    exact = start_value(mdp, policy, risk_cumulants(mdp, policy, Fixed(0.9)))
    assert within(risk.learnt, exact, bias=0.02)


@pytest.mark.slow
def test_a_mean_reward_that_does_not_fit_is_reported_with_a_number():
    # One mean for three arms of means 1, 4 and 3: the arms explain a part of the squared errors.
    options = {**SHORT, "total_timesteps": 5000}
    any_arm = Partial(lambda obs, key: jax.random.randint(key, (), 0, 3))
    bandit = Bandit(std_b=1.0, pareto_shape=6.0)
    row = lambda rows, obs, action: rows[action]  # noqa: E731
    one_mean, a_mean_each = (
        MeanReward(Partial(row, jnp.asarray(rows, jnp.float32)), 3, rate=0.01)
        for rows in ([[1, 0, 0]] * 3, np.eye(3))
    )
    with pytest.warns(UserWarning, match=r"takes away \d+% of its squared errors"):
        estimate_risk(bandit, any_arm, target=Centralised(), mean_reward=one_mean, **options)

    risk = estimate_risk(bandit, any_arm, target=Centralised(), mean_reward=a_mean_each, **options)
    assert risk.learnt.value > 0


class Thermostat(gymnasium.Env):
    """A room to keep warm, observed as a dictionary; the wind is random."""

    observation_space = spaces.Dict(
        {"room": spaces.Box(-np.inf, np.inf, (1,)), "open": spaces.Discrete(2)}
    )
    action_space = spaces.Box(0.0, 2.0, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.room = 0.0
        return self._obs(), {}

    def step(self, action):
        self.room += float(action[0]) - 1.0 + self.np_random.normal()
        return self._obs(), -(self.room**2), bool(abs(self.room) > 4), False, {}

    def _obs(self):
        return {"room": np.array([self.room], np.float32), "open": np.int64(self.room > 0)}


@pytest.mark.slow
def test_dictionaries_numbers_and_a_printed_result(tmp_path):
    risk = estimate_risk(
        Thermostat,
        lambda obs: np.clip(1.0 - obs["room"], 0.0, 2.0).astype(np.float32),
        target=lambda transition: -jnp.abs(transition.obs["room"][0]),
        discount=0.9,
        **{**SHORT, "n_eval_episodes": 500, "max_steps": 200},
    )
    assert abs(risk.learnt.value / risk.fresh.proxy.value - 1.0) < 0.15
    text = str(risk)
    for words in (
        "proxy, learnt online",
        "fresh episodes",
        "path shortfall",
        "LPM about",
        "bounds",
    ):
        assert words in text
    risk.plot(tmp_path / "curve.png")
    assert (tmp_path / "curve.png").stat().st_size > 10_000


class Walk(gymnasium.Env):
    """A walk that is cut short after 50 steps, by itself and not by a registered limit."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,))
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.time += 1
        return self.np_random.normal(size=1).astype(np.float32), 1.0, False, self.time == 50, {}


@pytest.mark.slow
def test_a_wide_box_does_not_hide_the_observations():
    space = spaces.Box(-1e6, 1e6, (1,))
    basis = basis_for(space, np.linspace(-2.0, 2.0, 50, dtype=np.float32)[:, None])
    assert np.ptp(basis(np.array([[-2.0], [2.0]], np.float32)), axis=0).max() > 0.5


def wait(obs):
    return 0


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        ({"order": -1}, "order is -1; the proxy is defined for orders of 1 or more"),
        ({"discount": 1.5}, r"discount is 1.5; a probability lies in \[0, 1\]"),
        ({"target": "low"}, "target is 'low'; give a number"),
        ({"target": np.zeros(3)}, "give a number"),
        ({"target": lambda t: jnp.zeros(3)}, r"returned an array of shape \(3,\); .* one number"),
        ({"target": lambda t: jnp.log(-1.0 - 0.0 * t.reward)}, "target of a step is nan"),
        ({"target": lambda t: 1.0 if t.reward > 0 else 0.0}, "write it with jax.numpy"),
        ({"policy": lambda obs: 11}, r"the action 11, which is outside the action space Discrete"),
        ({"policy": lambda obs: 0.5}, "needs a whole number"),
        ({"policy": lambda obs: jnp.zeros(2, int)}, r"an action of shape \(2,\)"),
        ({"policy": 3}, "policy is 3; give a function of the observation"),
        ({"env": "FrozenLake-v1", "policy": lambda obs: 9}, "the action 9, which is outside"),
        ({"env": "FrozenLake-v1", "policy": lambda obs: 0.5}, "the action 0.5, which is outside"),
        ({"env": "FrozenLake-v1", "discount": -0.1}, "discount is -0.1"),
        ({"critic": Sarsa(0.5, trace="replacing")}, "a replacing trace needs features of 0 and 1"),
        ({"expected": True}, "needs a pair"),
        ({"horizon": 7}, "has its own horizon, 50"),
        ({"critic": "lstd"}, "critic is 'lstd'; give a critic such as LSTD"),
        ({"max_steps": 0}, "max_steps is 0; it must be a whole number, at least 1"),
        ({"policy": lambda obs: None}, "the action None, which is outside"),
        ({"env": lambda: Walk(), "policy": wait}, "are cut short after 50 steps and the discount"),
        ({"n_seeds": 1}, "n_seeds is 1; it must be a whole number, at least 2"),
        ({"critic": Sarsa(), "step_size": 1e9}, "no longer finite: .* or try a smaller step size"),
    ],
    ids=lambda value: None if isinstance(value, str) else "_".join(value),
)
def test_bad_input_is_refused_in_a_sentence(arguments, advice):
    arguments = {"env": Portfolio(), "policy": wait, "target": Centralised(), **TINY, **arguments}
    if not isinstance(arguments["env"], Portfolio):
        arguments["target"] = 0.5
    with pytest.raises(ValueError, match=advice):
        estimate_risk(arguments.pop("env"), arguments.pop("policy"), **arguments)
