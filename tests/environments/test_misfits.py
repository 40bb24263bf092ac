from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from downside.environments.misfits import check_observations, outside_by

PLACE = spaces.Box(-1.0, 2.0, (2,), np.float32)
PAIR = spaces.Dict({"place": PLACE, "door": spaces.Discrete(3, start=1)})
TWO = spaces.Tuple((PLACE, spaces.MultiDiscrete([3, 2])))


@pytest.mark.parametrize("space", [PLACE, PAIR, TWO, spaces.Discrete(3, start=1)], ids=str)
def test_one_observation_and_a_batch_are_taken(space: Any):
    space.seed(3)
    check_observations(space, space.sample())
    check_observations(space, _stacked([space.sample() for _ in range(5)]))


def _stacked(rows: list[Any]) -> Any:
    if isinstance(rows[0], dict):
        return {key: _stacked([row[key] for row in rows]) for key in rows[0]}
    if isinstance(rows[0], tuple):
        return tuple(_stacked(list(part)) for part in zip(*rows, strict=True))
    return np.stack(rows)


@pytest.mark.parametrize(
    ("space", "obs", "words"),
    [
        (PLACE, np.zeros(3), r"has the shape \(3,\); one observation has \(2,\).*\(n, 2\)"),
        (PLACE, np.zeros((4, 5, 2)), r"has the shape \(4, 5, 2\)"),
        (PLACE, ["a", "b"], "has .*'a'.* in it"),
        (PLACE, np.array([0.5, np.nan]), "not NaN and not infinity"),
        (PLACE, np.array([0.5, np.inf]), "not NaN and not infinity"),
        (PAIR, {"place": np.zeros(2)}, "needs the keys door, place"),
        (PAIR, {"place": np.zeros(3), "door": 1}, r"obs\['place'\] has the shape \(3,\)"),
        (PAIR, np.zeros(2), "needs the keys"),
        (TWO, (np.zeros(2),), "must be a tuple of 2"),
        (spaces.Discrete(3, start=1), 0, "numbered 1 to 3"),
        (spaces.Discrete(3, start=1), np.array([1, 4]), "numbered 1 to 3"),
        (spaces.Discrete(3), np.zeros((2, 2), int), r"one observation has \(\).*\(n,\)"),
    ],
)
def test_anything_else_is_refused_in_plain_words(space: Any, obs: Any, words: str):
    with pytest.raises(ValueError, match=words):
        check_observations(space, obs)


@given(st.floats(-50.0, 50.0), st.floats(0.001, 50.0))
def test_outside_is_the_distance_to_the_box(inside: float, distance: float):
    box = spaces.Box(-50.0, 50.0, (1,))
    values = np.array([[inside], [-50.0 - distance], [50.0 + distance]])
    found = outside_by(box, values)[:, 0]
    matters = distance > 1e-4 * (50.0 + distance)
    np.testing.assert_allclose(found, [0.0, distance * matters, distance * matters], rtol=1e-6)
