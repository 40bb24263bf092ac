"""Environments that are broken: each fault is named, with what to do."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv

import downside
from downside.environments.checking import check_env
from walks import Walk, broken, observing, rewards, stepping

MEAN = "mean_reward"
PAIR = spaces.Dict({"place": spaces.Box(-5.0, 5.0, (1,), np.float32), "door": spaces.Discrete(3)})
TWO = spaces.Tuple((spaces.Discrete(3), spaces.Discrete(4)))


def pair(self: Any, **changes: Any) -> Any:
    return {"place": np.array([self.place], np.float32), "door": 1, **changes}


class Shared(Walk):
    """The place of every copy is one and the same."""

    places: Any = [0.0]  # noqa: RUF012 (the mistake)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.places[0] = 0.0
        return super().reset(seed=seed)

    def step(self, action: Any) -> Any:
        result = super().step(action)
        self.places[0] += self.place
        return (np.array([np.clip(self.places[0], -5, 5), 0.5], np.float32), *result[1:])


class Unsettled(Walk):
    """Rounds otherwise once another one has begun, as where the order in memory matters."""

    begun: Any = set()  # noqa: RUF012 (the point)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.begun.add(self)
        return super().reset(seed=seed)

    def obs(self) -> Any:
        return np.array([np.clip(self.place, -5.0, 5.0), 0.1 * (len(self.begun) > 1)], np.float32)


ONE = Walk()


class OldReset(Walk):
    def reset(self) -> Any:  # type: ignore[override]
        return super().reset()


class Leftover(Walk):
    """Reset does not start from scratch."""

    level = 0.0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        result = super().reset(seed=seed)
        self.level = min(self.level + 0.01, 1.0)
        return result

    def reward(self) -> Any:
        return self.level


class Breaks(Walk):
    def step(self, action: Any) -> Any:
        if self.time == 3:
            raise IndexError("list index out of range")
        return super().step(action)


BROKEN = {
    "NaN at step 500": (rewards(np.nan, 500), "error", "the reward at step", "division by 0"),
    "infinite reward": (rewards(-np.inf), "error", "is -inf", "finite number"),
    "array reward": (rewards(np.ones(3)), "error", r"array of shape \(3,\)", r"float\(reward\)"),
    "array of one": (rewards(np.ones(1)), "error", r"array of shape \(1,\)", r"float\(reward\)"),
    "reward None": (rewards(None), "error", "is None, not a number", r"float\(reward\)"),
    "reward text": (rewards("3"), "error", "is '3', not a number", r"float\(reward\)"),
    "ragged reward": (rewards([1, [2, 3]]), "error", "not a number", r"float\(reward\)"),
    "huge rewards": (rewards(5e6), "note", r"up to 5e\+06", "way=.online"),
    "tiny rewards": (rewards(1e-6, 0), "note", "up to 1e-06", "batches .* does not mind"),
    "no reward at all": (rewards(0.0), "note", "every reward .* was 0", "random actions find"),
    "outside": (
        observing(lambda self: np.array([9.0, 0.5], np.float32)),
        "warning",
        "outside its Box by 4",
        "wider bounds",
    ),
    "NaN observed": (
        observing(lambda self: np.array([np.nan, 0.5], np.float32)),
        "error",
        "holds NaN",
        "division by 0",
    ),
    "infinity observed": (
        observing(
            lambda self: np.array([np.inf, 0.5], np.float32),
            spaces.Box(-np.inf, np.inf, (2,), np.float32),
        ),
        "error",
        "is infinite",
        "finite numbers",
    ),
    "wrong width": (
        observing(lambda self: np.array([self.place, 0.5])),
        "warning",
        "type float64, and its space float32",
        r"astype\(np.float32\)",
    ),
    "fraction for a number": (
        observing(lambda self: 1.5, spaces.Discrete(3)),
        "error",
        "type float64, and its space int64",
        "declare the other type",
    ),
    "wrong shape": (
        observing(lambda self: np.zeros((1, 2), np.float32)),
        "error",
        r"shape \(1, 2\), and its space \(2,\)",
        "shape of the space",
    ),
    "state too large": (
        observing(lambda self: 7, spaces.Discrete(5)),
        "error",
        r"is 7, outside Discrete\(5\)",
        "larger space",
    ),
    "list of words": (
        observing(lambda self: ["a", "b"]),
        "error",
        "not numbers",
        "return numbers",
    ),
    "missing key": (
        observing(lambda self: {"door": 1}, PAIR),
        "error",
        "lacks 'place'",
        "keys of its Dict",
    ),
    "a key too many": (
        observing(lambda self: pair(self, lamp=3), PAIR),
        "error",
        "has 'lamp' too many",
        "keys of its Dict",
    ),
    "inside a dictionary": (
        observing(lambda self: pair(self, door=4), PAIR),
        "error",
        r"\['door'\] is 4, outside",
        "larger space",
    ),
    "not a dictionary": (
        observing(lambda self: 3, PAIR),
        "error",
        "is 3, not a dictionary",
        "return a dictionary",
    ),
    "list for a tuple": (
        observing(lambda self: [1, 2], TWO),
        "error",
        r"is \[1, 2\], not a tuple of 2",
        "return a tuple",
    ),
    "four values": (
        stepping(lambda obs, reward, over, cut, info: (obs, reward, over, info)),
        "error",
        "step returned four values",
        "the old gym's done",
    ),
    "a list": (
        stepping(lambda *values: list(values)),
        "error",
        "step returned",
        "terminated, truncated, info",
    ),
    "info None": (
        stepping(lambda obs, reward, over, cut, info: (obs, reward, over, cut, None)),
        "error",
        "info at step 0 of episode 0 is None",
        "a dictionary",
    ),
    "flag is a number": (
        stepping(lambda obs, reward, over, cut, info: (obs, reward, int(over), cut, info)),
        "warning",
        "terminated at step 0 of episode 0 is 0, of type int",
        r"bool\(terminated\)",
    ),
    "flag is a word": (
        stepping(lambda obs, reward, over, cut, info: (obs, reward, over, "no", info)),
        "error",
        "truncated .* is 'no'",
        r"bool\(truncated\)",
    ),
    "reset gives the observation": (
        broken("First", reset=lambda self, *, seed=None, options=None: Walk.reset(self)[0]),
        "error",
        "reset returned array",
        r"\(observation, info\)",
    ),
    "reset takes no seed": (OldReset(), "error", r"reset\(seed=...\) fails", "signature reset"),
    "unseeded": (
        broken("Unseeded", obs=lambda self: np.random.random(2).astype(np.float32)),  # noqa: NPY002
        "warning",
        "same seed and the same actions.*first observation",
        "super.*reset.*np_random",
    ),
    "reset keeps something": (
        Leftover(),
        "warning",
        "same seed and the same actions.*at step 0",
        "start from scratch",
    ),
    "never ends": (
        broken("Endless", over=lambda self: False, obs=lambda self: np.zeros(2, np.float32)),
        "warning",
        "did not end within 3,000 steps",
        "TimeLimit",
    ),
    "limit as an end": (
        broken(
            "Limit",
            over=lambda self: self.time == 100,
            obs=lambda self: np.zeros(2, np.float32),
        ),
        "warning",
        "end after exactly 100 steps with terminated=True",
        "truncated=True",
    ),
    "shared state": (Shared(), "error", "state is shared between copies", "keep the state in self"),
    "one and the same": (lambda: ONE, "warning", "one and the same environment", "make a new one"),
    "order in memory": (
        Unsettled,
        "note",
        "once a copy had been at work.*something else .in the first",
        "last bit",
    ),
    "fails in step": (Breaks(), "error", "step fails at step 3 .* IndexError", "every action"),
    "no action space": (
        broken("NoActions", action_space=None),
        "error",
        "action_space is None",
        r"set self\.action_space",
    ),
    "space of text": (
        broken("Text", observation_space=spaces.Text(4)),
        "error",
        "nothing here can learn from",
        "use Discrete, Box",
    ),
    "not an environment": (Walk().action_space, "error", "not a gymnasium.Env", "derive it"),
    "rewards beyond float32": (
        rewards(3e20),
        "warning",
        r"up to 3e\+20 in size, which float32 has no room",
        "other units",
    ),
    "observation beyond float32": (
        observing(
            lambda self: np.array([1e39, 0.5]), spaces.Box(-np.inf, np.inf, (2,), np.float64)
        ),
        "error",
        "too large for arithmetic in float32",
        "logarithms",
    ),
    "no NumPy": (
        observing(lambda self: jnp.array([self.place, 0.5])),
        "warning",
        "of type ArrayImpl, not a NumPy array",
        r"np\.asarray\(obs, np\.float32\)",
    ),
    "a mean that is none": (
        stepping(lambda obs, reward, over, cut, info: (obs, reward, over, cut, {MEAN: np.nan})),
        "error",
        "mean_reward'. at step 0 of episode 0 is nan",
        "one finite number",
    ),
    "reset fails for another reason": (
        broken("Sums", reset=lambda self, *, seed=None, options=None: seed + "a"),
        "error",
        "^reset fails: TypeError",
        "repair it",
    ),
    "always truncated": (
        stepping(lambda obs, reward, over, cut, info: (obs, reward, False, True, info)),
        "warning",
        "truncated after their first step",
        "time limit only",
    ),
    "one action": (
        broken("One", action_space=spaces.MultiDiscrete([3, 1])),
        "error",
        "a part has one value only",
        "nothing to choose",
    ),
    "pictures": (
        observing(lambda self: np.zeros((8, 8), np.uint8), spaces.Box(0, 255, (8, 8), np.uint8)),
        "note",
        "holds pictures",
        "few numbers",
    ),
    "empty": (
        observing(lambda self: {}, spaces.Dict({})),
        "error",
        "which is empty",
        "declare what is observed",
    ),
    "no numbers": (
        observing(lambda self: np.zeros(0, "f"), spaces.Box(-1, 1, (0,))),
        "error",
        "holds no numbers",
        "declare what is observed",
    ),
    "not registered": ("Nowhere-v0", "error", "cannot be made", "make it run first"),
    "vector": (SyncVectorEnv([Walk]), "error", "a vector environment", "one copy"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_named_with_what_to_do(name):
    env, severity, what, advice = BROKEN[name]
    with np.errstate(all="ignore"):
        result = check_env(env, max_episode_steps=3000)
    found = [each for each in result.findings if each.severity == severity]
    assert found, str(result)
    assert any(_matches(what, each.what) and _matches(advice, each.advice) for each in found), str(
        result
    )
    assert result.ok == (severity != "error")


def _matches(pattern: str, text: str) -> bool:
    import re

    return re.search(pattern, text) is not None


def test_it_is_printed_in_plain_words_and_raised_only_if_asked():
    result = check_env(BROKEN["NaN at step 500"][0])
    text = str(result)
    assert text.startswith("Rewards: 1 error (")
    assert "\n       -> return a finite number" in text
    with pytest.raises(ValueError, match="finite number"):
        downside.check_env(BROKEN["NaN at step 500"][0], raise_errors=True)
