from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.vector import SyncVectorEnv

from downside.environments.python import HostEnvironment, wrap
from downside.registration import register_environments

register_environments()


class Scripted(gymnasium.Env[Any, Any]):
    """Gives what a test tells it to give."""

    def __init__(
        self,
        observation_space: Any = None,
        action_space: Any = None,
        *,
        first: Any = None,
        steps: tuple[Any, ...] = (),
    ) -> None:
        self.observation_space = observation_space or spaces.Discrete(5)
        self.action_space = action_space or spaces.Discrete(3)
        self.first = self.observation_space.sample() if first is None else first
        self.steps = iter(steps)
        self.actions: list[Any] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self.first, {}

    def step(self, action: Any) -> Any:
        self.actions.append(action)
        return next(self.steps)


NESTED = spaces.Dict(
    {
        "where": spaces.Box(-1.0, 2.0, (2,), np.float32),
        "flags": spaces.MultiBinary(3),
        "pair": spaces.Tuple((spaces.Discrete(4, start=2), spaces.MultiDiscrete([2, 5]))),
    }
)
INSIDE = {
    "where": np.array([0.5, 1.5]),
    "flags": np.array([1, 0, 1], np.int8),
    "pair": (3, np.array([1, 4])),
}


@pytest.mark.parametrize(
    "env",
    [
        "FrozenLake-v1",
        "CartPole-v1",
        "Blackjack-v1",
        "MountainCarContinuous-v0",
        "downside/Portfolio-v0",
        "downside/Consumption-v0",
    ],
)
def test_it_gives_what_the_environment_gives(env: str):
    host, reference = wrap(env, discount=0.9), gymnasium.make(env)
    host.action_space.seed(8)
    assert host.observation_space == reference.observation_space
    assert host.horizon is None
    n_ends = 0
    for episode in range(3):
        obs = host.reset(seed=31 + episode)
        expected, _ = reference.reset(seed=31 + episode)
        for time in range(60):
            np.testing.assert_array_equal(obs, expected)
            action = host.action_space.sample()
            step = host.step(action)
            expected, reward, terminated, truncated, _ = reference.step(action)
            np.testing.assert_array_equal(step.obs, obs)
            np.testing.assert_array_equal(step.action, action)
            assert (step.reward, step.time) == (reward, time)
            assert (step.terminated, step.truncated) == (terminated, truncated)
            assert step.discount == (0.0 if terminated else 0.9)
            obs = step.next_obs
            if terminated or truncated:
                n_ends += 1
                break
    assert n_ends > 0 or env == "MountainCarContinuous-v0"


def test_a_truncation_keeps_the_discount_and_ends_the_episode():
    host = wrap(gymnasium.make("MountainCarContinuous-v0", max_episode_steps=2), discount=0.7)
    host.reset(seed=4)
    host.step([0.1])
    step = host.step([0.1])
    assert (step.terminated, step.truncated, step.discount, step.time) == (False, True, 0.7, 1)
    with pytest.raises(ResetNeeded, match=r"call reset\(\)"):
        host.step([0.1])
    host.reset()
    assert host.step([0.1]).time == 0


def test_an_instance_and_a_factory_are_taken_too():
    made = Scripted()
    assert wrap(made).env is made
    assert wrap(lambda: made).env is made
    assert isinstance(wrap(Scripted), HostEnvironment)


@pytest.mark.parametrize("env", [3, None, lambda: "CartPole-v1", Scripted().action_space])
def test_what_is_no_environment_is_refused(env: Any):
    with pytest.raises(ValueError, match="give a Gymnasium id, an environment, or a function"):
        wrap(env)


def test_vector_environments_are_refused():
    envs = SyncVectorEnv([Scripted])
    for env in (envs, lambda: envs):
        with pytest.raises(ValueError, match="give the environment of one copy"):
            wrap(env)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Text(5),
        spaces.Sequence(spaces.Discrete(2)),
        spaces.Dict({"name": spaces.Text(5), "age": spaces.Discrete(99)}),
        spaces.Tuple((spaces.Discrete(2), spaces.Tuple((spaces.Text(4),)))),
    ],
)
def test_other_spaces_are_refused(space: Any):
    expected = "supported are Discrete, Box, MultiBinary, MultiDiscrete, and Tuple and Dict"
    for env in (Scripted(observation_space=space), Scripted(action_space=space)):
        with pytest.raises(ValueError, match=expected):
            wrap(env)


@pytest.mark.parametrize(
    "space",
    [spaces.Dict(a=spaces.Dict()), spaces.Tuple([spaces.Tuple([])]), spaces.Box(0, 1, (2, 0))],
    ids=str,
)
def test_empty_spaces_are_refused(space: Any):
    with pytest.raises(ValueError, match="declare what is observed or chosen"):
        wrap(Scripted(observation_space=space))


def test_nested_spaces_keep_their_structure_and_get_their_types():
    env = Scripted(NESTED, NESTED, first=INSIDE, steps=((INSIDE, 2, False, False, {}),))
    host = wrap(env)
    obs = host.reset()
    step = host.step(INSIDE)
    for value in (obs, step.next_obs, step.action, env.actions[0]):
        assert value in NESTED
        assert value["where"].dtype == np.float32
        assert value["pair"][0] == 3
    assert isinstance(step.reward, float)


@pytest.mark.parametrize(
    ("change", "advice"),
    [
        ({"where": np.zeros(3)}, r"shape \(3,\).*has \(2,\)"),
        ({"flags": np.array([0.5, 0.0, 1.0])}, "type float64.*int8"),
        ({"flags": np.array([0, 2, 1])}, "outside its space"),
        ({"pair": (1, np.array([1, 4]))}, "entry 0, is 1, which is outside its space"),
        ({"pair": (3,)}, "a tuple of 2 entries"),
        ({"pair": [3, np.array([1, 4])]}, "a tuple of 2 entries"),
        ({"where": np.array([0.5, np.nan])}, "entry 'where', is .*nan.*not NaN"),
        ({"extra": 1}, "needs the keys flags, pair, where"),
        ({"where": np.array([0.5, 1e300])}, "must be smaller"),
    ],
)
def test_an_observation_that_does_not_fit_is_refused(change: dict[str, Any], advice: str):
    wrong = {**INSIDE, **change}
    with pytest.raises(ValueError, match=f"(?s)observation at step 0 of episode 0.*{advice}"):
        wrap(Scripted(NESTED, first=wrong)).reset()
    host = wrap(Scripted(NESTED, first=INSIDE, steps=((wrong, 0.0, False, False, {}),)))
    host.reset()
    with pytest.raises(ValueError, match=f"(?s)observation at step 0 of episode 0.*{advice}"):
        host.step(1)


def test_an_action_that_does_not_fit_is_refused():
    host = wrap("FrozenLake-v1")
    host.reset()
    for action, advice in ((4, "outside"), (0.5, "float64"), ([1, 2], r"shape \(2,\)")):
        with pytest.raises(ValueError, match=f"action at step 0 of episode 0.*{advice}"):
            host.step(action)


@pytest.mark.parametrize(
    "reward", [float("nan"), float("inf"), None, np.array([1.0, 2.0]), "3", [1.0, [2.0]]]
)
def test_a_reward_must_be_a_finite_number(reward: Any):
    fine = (2, 0.5, False, False, {})
    ends = (2, 0.5, True, False, {})
    host = wrap(Scripted(steps=(ends, fine, (2, reward, False, False, {}))))
    host.reset()
    host.step(0)
    host.reset()
    host.step(0)
    with pytest.raises(ValueError, match=r"reward at step 1 of episode 1 is .* one finite number"):
        host.step(0)


@pytest.mark.parametrize(
    ("result", "found"), [((2, 0.5, False, {}), "4 values"), ([2, 0.5, False, False, {}], "2, 0.5")]
)
def test_a_step_must_return_five_values(result: Any, found: str):
    host = wrap(Scripted(steps=(result,)))
    host.reset()
    with pytest.raises(ValueError, match=f"{found}.*terminated, truncated, info"):
        host.step(0)


@pytest.mark.parametrize("result", [2, (2, None), [2, {}]])
def test_a_reset_must_return_two_values(result: Any):
    class Old(Scripted):
        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            return result

    with pytest.raises(ValueError, match=r"must return \(observation, info\), info a dictionary"):
        wrap(Old()).reset()


@pytest.mark.parametrize("info", [None, [], "mean_reward"])
def test_what_comes_with_a_step_is_a_dictionary(info: Any):
    host = wrap(Scripted(steps=((2, 0.5, False, False, info),)))
    host.reset()
    with pytest.raises(ValueError, match=r"info at step 0 of episode 0 is .* a dictionary"):
        host.step(0)


@pytest.mark.parametrize("true", [np.True_, 1, np.array(True), np.array(1.0)])
def test_a_flag_may_be_anything_that_is_true_or_false(true: Any):
    host = wrap(Scripted(steps=((True, 0.5, true, False, {}),)))
    host.reset()
    step = host.step(0)
    assert step.terminated is True
    assert step.next_obs == 1  # a state that was told as a truth


def test_an_environment_may_reuse_its_arrays():
    shared = np.array([0.25, 0.5], np.float32)
    box = spaces.Box(0.0, 9.0, (2,), np.float32)
    host = wrap(Scripted(box, first=shared, steps=((shared, 0.0, False, False, {}),)))
    obs = host.reset()
    shared += 1.0
    step = host.step(0)
    shared += 1.0
    np.testing.assert_array_equal(obs, [0.25, 0.5])
    np.testing.assert_array_equal(step.obs, [0.25, 0.5])
    np.testing.assert_array_equal(step.next_obs, [1.25, 1.5])


def test_a_step_needs_a_running_episode_and_a_discount_is_a_probability():
    with pytest.raises(ResetNeeded, match=r"call reset\(\)"):
        wrap("FrozenLake-v1").step(0)
    with pytest.raises(ValueError, match=r"discount is 1\.5; a probability"):
        wrap("FrozenLake-v1", discount=1.5)


def test_closing_closes_the_environment():
    class Closing(Scripted):
        is_closed = False

        def close(self) -> None:
            self.is_closed = True

    env = Closing()
    wrap(env).close()
    assert env.is_closed


def test_an_observation_may_lie_outside_its_box():
    far = np.array([-7.5, 1e30])
    box = spaces.Box(-1.0, 2.0, (2,), np.float32)
    host = wrap(Scripted(box, first=far, steps=((far, 0.5, False, False, {}),)))
    np.testing.assert_array_equal(host.reset(), far.astype(np.float32))
    np.testing.assert_array_equal(host.step(1).next_obs, far.astype(np.float32))


@pytest.mark.parametrize("space", [spaces.Box(-np.inf, np.inf, (2,)), spaces.Box(0, 9, (2,))])
def test_an_infinite_observation_is_refused(space: Any):
    far = np.array([3.0, np.inf], np.float32)
    host = wrap(
        Scripted(space, first=np.ones(2, np.float32), steps=((far, 0.5, False, False, {}),))
    )
    host.reset()
    with pytest.raises(ValueError, match="not infinity"):
        host.step(1)


def test_nan_in_an_action_is_refused():
    host = wrap("Pendulum-v1")
    host.reset(seed=2)
    with pytest.raises(ValueError, match=r"action at step 0 of episode 0 is .*nan.*not NaN"):
        host.step(np.array([np.nan], np.float32))


@pytest.mark.filterwarnings("error")
def test_short_numbers_are_observed_without_a_warning():
    env = gymnasium.wrappers.TransformObservation(
        gymnasium.make("CartPole-v1"),
        lambda obs: obs.astype(np.float16),
        spaces.Box(-5, 5, (4,), np.float16),
    )
    obs = wrap(env).reset(seed=3)
    assert np.all(np.abs(obs) <= 0.05)  # where CartPole begins
