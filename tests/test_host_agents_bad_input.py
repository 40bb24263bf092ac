"""Python environments that are broken, arguments that are wrong: what agents say to them."""

import numpy as np
import pytest
from gymnasium import spaces

from downside import defaults
from downside.bases import Polynomial
from downside.control import NAC, NRCPO
from downside.policies import Gibbs
from downside.training import hosting
from drift_agents import PERIOD, QUIET, make
from host_environments import Drift, Endless, Spaces

BROKEN = {
    "NaN reward": (lambda o, r, d, t, i: (o, np.nan, d, t, i), "reward at step .* is nan"),
    "reward an array": (lambda o, r, d, t, i: (o, np.ones(2), d, t, i), "reward at step"),
    "infinite reward": (lambda o, r, d, t, i: (o, np.float32(np.inf), d, t, i), "reward at step"),
    "four values": (lambda o, r, d, t, i: (o, r, d, i), "step returned 4 values"),
    "NaN": (lambda o, r, d, t, i: (o * np.nan, r, d, t, i), "must hold numbers, not NaN"),
    "shape": (lambda o, r, d, t, i: (o[:1], r, d, t, i), r"shape \(1,\).*has \(2,\)"),
    "type": (lambda o, r, d, t, i: (o.astype(complex), r, d, t, i), "type complex128"),
    "infinity": (
        lambda o, r, d, t, i: (np.full_like(o, np.inf), r, d, t, i),
        "must hold numbers, .*not infinity",
    ),
    "ragged": (lambda o, r, d, t, i: ([1.0, [2.0]], r, d, t, i), "observation at .* type object"),
    "a word for a flag": (lambda o, r, d, t, i: (o, r, "no", t, i), "terminated .* True or False"),
    "flag an array": (lambda o, r, d, t, i: (o, r, d, np.ones(2), i), "truncated .* True or False"),
    "NaN as a mean": (
        lambda o, r, d, t, i: (o, r, d, t, {"mean_reward": np.nan}),
        r"info\['mean_reward'\] at step .* is nan",
    ),
    "info None": (lambda o, r, d, t, i: (o, r, d, t, None), "info at step .* a dictionary"),
    "beyond float32": (lambda o, r, d, t, i: (o, 2e16, d, t, i), r"up to 2e\+16.*float64"),
    "no reward": (lambda o, r, d, t, i: (o, None, d, t, i), "reward at step .* is None"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_environment_is_named_before_anything_is_learnt_from_it(fault):
    result, words = BROKEN[fault]
    agent = make(lambda: Drift(result=result), policy=Gibbs(Polynomial(2), 2))
    before = agent.theta
    with pytest.raises(ValueError, match=words):
        agent.learn(PERIOD, **QUIET)
    np.testing.assert_array_equal(agent.theta, before)
    assert agent.steps == 0


class Narrow(Drift):
    def __init__(self):
        super().__init__()
        self.observation_space = spaces.Dict({"x": spaces.Box(-0.5, 0.5, (2,))})

    def _obs(self):
        return {"x": super()._obs()}


def test_observations_outside_their_space_are_named_once():
    agent = make(Narrow)
    with pytest.warns(UserWarning, match=r"outside their Box, by up to \d.*declare wider") as said:
        agent.learn(3 * PERIOD, **QUIET)
    assert len(said) == 1
    assert np.all(np.isfinite(agent.theta))


def test_a_slow_environment_is_told_what_it_costs(monkeypatch):
    monkeypatch.setattr(defaults, "LONG_SECONDS", 0.0)
    with pytest.warns(UserWarning, match=r"seconds for a step.*1,000 steps.*give basis="):
        make()


class Unseeded(Drift):
    def reset(self):
        return super().reset()


class Cut(Drift):
    def step(self, action):
        return (*super().step(action)[:2], False, self.time >= 12, {})


def test_sums_without_an_end_are_refused(monkeypatch):
    monkeypatch.setattr(hosting, "PATIENCE", 2 * PERIOD)
    with pytest.raises(ValueError, match=r"no episode has ended in 120 steps.*TimeLimit"):
        NAC(Endless, period=PERIOD).learn(3 * PERIOD, **QUIET)
    with pytest.raises(ValueError, match=r"cut short after 12 steps.*give horizon="):
        NAC(Cut, period=PERIOD).learn(PERIOD, **QUIET)


PICTURES, TWO = spaces.Box(0, 255, (84, 84, 3), np.uint8), spaces.Discrete(2)
ONE = Drift()


def jumping(transition):
    return 1.0 if transition.reward > 0 else 0.0


class OnStep:
    def on_step(self):
        return True


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        (lambda: NRCPO("MlpPolicy", "CartPole-v1"), "environment comes first"),
        (lambda: NAC(Drift(), n_seeds=2), r"lambda: MyEnv\(\)"),
        (lambda: NAC(lambda: ONE, n_seeds=2), "gives one and the same each time"),
        (lambda: NAC(Drift, num_envs=7), "give period=2002"),
        (lambda: NAC(Drift, num_envs=2, way="online"), "follows one stream"),
        (lambda: NAC(Drift, policy="cnn"), "'linear', 'mlp'"),
        (lambda: NAC(Drift).learn(10, callback=OnStep()), "callback=lambda record"),
        (lambda: NAC(Drift).suggest_threshold(), "give the target"),
        (lambda: NAC(Drift(), env_options={"a": 1}), "made already"),
        (lambda: NAC(Drift, gamma=0.9), "gamma= is of Stable-Baselines3; here it is discount="),
        (
            lambda: NRCPO(Drift, target=jumping, threshold=0.3, discount=0.9).learn(9, **QUIET),
            r"a function of yours .* jnp\.where in the place of if",
        ),
        (lambda: NAC(3), "give a Gymnasium id"),
        (lambda: NAC(lambda: Spaces(PICTURES, TWO)), "21,169 features .* ResizeObservation"),
        (lambda: NAC(Unseeded), r"signature reset\(self, \*, seed=None"),
    ],
)
def test_bad_input_and_habits_from_elsewhere_are_answered(call, advice):
    with pytest.raises(ValueError, match=advice):
        call()
