"""Agents on vector environments: as many streams, whatever the way in which copies begin anew."""

import warnings

import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from downside import load
from downside.bases import Polynomial
from downside.control import NAC, NRCPO
from downside.environments.gymnasium import GymnasiumVectorEnv
from downside.environments.vectors import HostVector
from downside.policies import Gibbs
from downside.training.lockstep import Together
from downside.training.sampling import sampler
from downside.training.streams import Stream
from host_environments import Drift, OwnResets

QUIET = {"progress_bar": False}
PERIOD = 60
every_mode = pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.name)


def make(env=Drift, **options):
    settings = {"target": 0.5, "threshold": 0.3, "discount": 0.95, "period": PERIOD}
    return NRCPO(env, **settings | options)


@pytest.fixture(scope="module")
def expected():
    """What three copies learn that are stepped one after the other."""
    return make(num_envs=3).learn(4 * PERIOD, **QUIET).theta


@every_mode
def test_every_autoreset_mode_gives_the_same_learning(mode, expected, tmp_path):
    envs = SyncVectorEnv([Drift] * 3, autoreset_mode=mode)
    agent = make(envs).learn(2 * PERIOD, **QUIET)
    agent.save(tmp_path / "agent")
    agent.evaluate(3)  # with the only copies that there are
    np.testing.assert_array_equal(agent.learn(2 * PERIOD, **QUIET).theta, expected)
    again = load(tmp_path / "agent", env=SyncVectorEnv([Drift] * 3, autoreset_mode=mode))
    np.testing.assert_array_equal(again.learn(2 * PERIOD, **QUIET).theta, expected)


@pytest.mark.slow
@every_mode
def test_so_do_copies_in_processes_of_their_own(mode, expected):
    envs = AsyncVectorEnv([Drift] * 3, context="forkserver", autoreset_mode=mode)
    agent = make(envs).learn(3 * PERIOD, **QUIET)
    agent.evaluate(2)
    agent.learn(PERIOD, **QUIET)
    envs.close()
    np.testing.assert_array_equal(agent.theta, expected)


@every_mode
def test_so_do_our_own_compiled_copies(mode):
    def theta(mode):
        agent = NAC(GymnasiumVectorEnv("Tree", 2, autoreset_mode=mode), period=PERIOD)
        return agent.learn(2 * PERIOD, **QUIET).theta

    found = theta(mode)
    np.testing.assert_array_equal(found, theta(AutoresetMode.DISABLED))
    assert np.any(found != 0.0)


def together(vector, seed=1):
    streams = [
        Stream(host, (seed, 0, j), online=False, means=False)
        for j, host in enumerate(vector.copies)
    ]
    return Together(vector, streams)


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_without_single_resets_no_step_is_dropped_or_invented(mode):
    envs = OwnResets(mode)
    streams = together(HostVector(envs))
    policy = Gibbs(Polynomial(2), 2)
    envs.made = [[], [], []]
    rewards, times = [], []
    for period in range(4):
        sample = sampler(policy, np.full(policy.n_params, 0.1 * period))
        recorded = streams.record(sample, policy, period, 10)
        assert recorded.reward.shape == (3, 10)
        rewards.append(recorded.reward)
        times.append(recorded.time)
        np.testing.assert_array_equal(  # what follows a step is where the next one starts
            recorded.next_obs[:, :-1][~recorded.terminated[:, :-1]],
            recorded.obs[:, 1:][~recorded.terminated[:, :-1]],
        )
    made = np.array([row[:40] for row in envs.made])
    np.testing.assert_array_equal(np.concatenate(rewards, axis=1), made)
    ahead = [len(row) - 40 for row in envs.made]
    assert min(ahead) == 0
    assert (max(ahead) > 0) == (mode is AutoresetMode.NEXT_STEP)
    over = np.concatenate(times, axis=1) == 0
    assert over.sum() > 12


def test_without_single_resets_an_agent_learns_and_goes_on_with_a_word(tmp_path):
    agent = make(OwnResets(AutoresetMode.NEXT_STEP)).learn(2 * PERIOD, **QUIET)
    agent.evaluate(3)
    with pytest.warns(UserWarning, match=r"cannot reset single copies.*3 of its episodes"):
        agent.learn(PERIOD, **QUIET)
    agent.save(tmp_path / "agent")
    with pytest.warns(UserWarning, match="SyncVectorEnv"):
        again = load(tmp_path / "agent", env=OwnResets(AutoresetMode.SAME_STEP))
    assert again.learn(PERIOD, **QUIET).steps == 4 * PERIOD


def test_copies_that_ignore_their_seed_go_on_with_a_word():
    with pytest.warns(UserWarning, match="same seed and the same actions"):
        agent = make(SyncVectorEnv([lambda: Drift(honest=False)] * 3)).learn(PERIOD, **QUIET)
    agent.evaluate(2)
    with pytest.warns(UserWarning, match="did not repeat its episode"):
        agent.learn(2 * PERIOD, **QUIET)
    assert np.all(np.isfinite(agent.theta))


def test_a_function_that_makes_a_vector_environment_serves_every_seed():
    agent = make(lambda: SyncVectorEnv([Drift] * 3), n_seeds=2).learn(PERIOD, **QUIET)
    expected = make(num_envs=3, n_seeds=2).learn(PERIOD, **QUIET)
    np.testing.assert_array_equal(agent.theta, expected.theta)


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        (lambda: make(SyncVectorEnv([Drift] * 3), n_seeds=2), r"lambda: MyEnv\(\)"),
        (lambda: make(SyncVectorEnv([Drift] * 3), num_envs=2), "leave num_envs= out"),
        (lambda: make(SyncVectorEnv([Drift] * 3), way="online"), "follows one stream"),
        (
            lambda: make(OwnResets(AutoresetMode.SAME_STEP), horizon=2).learn(PERIOD, **QUIET),
            "leave horizon= out, and",
        ),
    ],
)
def test_what_cannot_be_is_answered(call, advice):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=advice):
            call()
