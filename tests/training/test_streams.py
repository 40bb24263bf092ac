"""Streams of steps in Python environments: where their episodes end, and what they act on."""

import threading
import time
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit

from downside import load
from downside.bases import Polynomial
from downside.control import NRCPO
from downside.defaults import hosting_for, limit_on_host
from downside.environments.python import wrap
from downside.policies import Gibbs
from downside.training import progress
from downside.training.collecting import Apart, Host
from downside.training.progress import TrainingBar
from downside.training.sampling import sampler
from downside.training.streams import Stream, serve
from host_environments import Drift, Endless, OwnResets

QUIET = {"progress_bar": False}
PERIOD = 60


class Quick(Drift):
    """The episode ends at the fifth step, where a limit of five steps would cut it."""

    def step(self, action):
        return (*super().step(action)[:2], self.time == 5, False, {})


def make(env, **options):
    return NRCPO(env, target=0.5, threshold=0.3, discount=0.8, period=PERIOD, **options)


def recorded(env, n_steps, limit):
    policy = Gibbs(Polynomial(2), 2)
    stream = Stream(wrap(env), (3, 0, 0), online=False, means=False, limit=limit)
    stream.sample = sampler(policy, np.full(policy.n_params, 0.1))
    return serve(stream.host.env, stream.record(stream.noise(policy, 0, n_steps)))


def test_an_episode_without_an_end_is_truncated_at_the_limit():
    found = recorded(Endless, 17, limit=5)
    assert np.flatnonzero(found.truncated).tolist() == [4, 9, 14]
    assert not found.terminated.any()
    assert found.time.tolist() == [*range(5)] * 3 + [0, 1]
    went_on = np.isclose(found.next_obs[:-1, 0], found.obs[1:, 0])
    assert np.flatnonzero(~went_on).tolist() == [4, 9, 14]
    assert np.allclose(found.next_obs[4, 1], 0.5)  # where the episode was, not where one begins
    assert not recorded(Endless, 17, limit=None).truncated.any()


def test_an_end_at_the_limit_is_no_truncation():
    found = recorded(Quick, 12, limit=5)
    assert np.flatnonzero(found.terminated).tolist() == [4, 9]
    assert not found.truncated.any()


def test_only_discounted_problems_without_a_limit_of_their_own_have_the_usual_one():
    def limit(env, discount=0.8, horizon=None):
        return limit_on_host(hosting_for(env, None, discount, horizon).first)

    assert limit(Endless) == limit(SyncVectorEnv([Endless] * 2)) == 15  # 3 / (1 - 0.8)
    assert limit(Endless, discount=1.0) is None
    assert limit(Endless, horizon=40) is None
    assert limit(lambda: TimeLimit(Endless(), 40)) is None
    assert limit(SyncVectorEnv([lambda: TimeLimit(Endless(), 40)] * 2)) is None
    assert limit(lambda: gymnasium.make("FrozenLake-v1")) is None
    assert limit(OwnResets(AutoresetMode.NEXT_STEP)) is None  # which we cannot begin anew
    assert make(Endless, episode_limit=7)._settings.episode_limit == 7


@pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.name)
def test_episodes_that_are_begun_anew_are_learnt_from_alike_and_go_on_where_they_were(
    mode, begun_anew, tmp_path
):
    make(SyncVectorEnv([Endless] * 3, autoreset_mode=mode)).learn(PERIOD, **QUIET).save(tmp_path)
    again = load(tmp_path, env=SyncVectorEnv([Endless] * 3, autoreset_mode=mode))
    np.testing.assert_array_equal(again.learn(PERIOD, **QUIET).theta, begun_anew.theta)
    assert again.records.episodes[-1] == 6  # 40 steps of each copy, of which 30 fill two episodes


@pytest.fixture(scope="module")
def begun_anew():
    """What three copies learn that are stepped one after the other."""
    return make(Endless, num_envs=3).learn(2 * PERIOD, **QUIET)


def test_online_the_first_action_of_an_episode_begun_anew_is_chosen_for_it():
    # It is 1 where x > 0. Were it that of the episode that was lost, it would be wrong in one
    # attempt out of a few.
    policy = Gibbs(Polynomial(2), 2)
    stream = Stream(wrap(lambda: Drift(honest=False)), (1, 0, 0), online=True, means=False)
    apart = Apart([stream])

    def sample(obs, noise):
        return int(obs[0] > 0.0)

    apart.record(sample, policy, 0, 20)
    for _ in range(20):
        assert apart.put_back([stream.state()]) == [0]
        assert "pending" not in stream.state()
        found = apart.record(sample, policy, 1, 3)
        assert found.action[0, 0] == int(found.obs[0, 0, 0] > 0.0)


class Watching(Drift):
    """Sees how far the period is, before every step."""

    def step(self, action):
        self.seen.append(self.look())
        return super().step(action)


def test_how_far_a_period_is_can_be_seen_while_it_is_recorded():
    policy = Gibbs(Polynomial(2), 2)
    envs = [Watching(), Watching()]
    streams = [
        Stream(wrap(env), (1, 0, j), online=False, means=False) for j, env in enumerate(envs)
    ]
    host = Host([Apart(streams)], policy, 10)
    for env in envs:
        env.seen, env.look = [], lambda: host.acted
    for period in range(2):
        host.record(np.zeros((1, policy.n_params)), period)
        assert host.acted == 0
    assert envs[0].seen == [0, 1, 2, 3, 4] * 2
    assert envs[1].seen == [5, 6, 7, 8, 9] * 2
    bar = TrainingBar(100, 20, np.zeros((1, 0)), shown=False, acted=lambda: 7)
    assert str(bar._bar.columns[0](bar._bar.tasks[0])) == "27 steps"


def test_a_log_file_has_lines_while_a_slow_period_is_recorded(monkeypatch, capsys):
    monkeypatch.setattr(progress, "LOG_SECONDS", 0.01)
    acted, enough = [], threading.Event()

    def count():
        acted.append(None)
        if len(acted) == 3:
            enough.set()
        return len(acted)

    for shown in (True, False):
        with TrainingBar(100, 20, np.zeros((1, 0)), shown=shown, acted=count):
            assert enough.wait(10.0)
        lines = capsys.readouterr().err.splitlines()
        assert lines[:2] == (
            ["21 of 100 steps  acting", "22 of 100 steps  acting"] if shown else []
        )
    bar = TrainingBar(100, 20, np.zeros((1, 0)), shown=True, acted=lambda: 90)
    with bar:
        bar.advance(40, SimpleNamespace(steps=np.zeros(2), returns=np.array([1.0, 2.0])), 0.5)
        deadline = time.monotonic() + 10.0
        while "mean" not in (said := capsys.readouterr().err) and time.monotonic() < deadline:
            time.sleep(0.01)
    assert said.splitlines()[-1] == "100 of 100 steps  80 learner-steps/s  mean 1.5"
