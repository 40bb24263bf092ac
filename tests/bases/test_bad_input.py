"""Bad input is answered with one clear sentence: what came, what is allowed."""

import jaxtyping
import numpy as np
import pytest

from downside.bases import (
    Box,
    Concatenation,
    Custom,
    Fourier,
    OneHot,
    Polynomial,
    Radial,
    Scaling,
    TileCoding,
)


@pytest.fixture(autouse=True)
def without_the_type_checker_of_the_tests(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


def first_two(obs):
    return obs[..., :2]


WHOLE = "it must be a whole number, at least"
BAD = {
    "half an order": (lambda: Fourier([0.0], [1.0], order=0.5), f"order is 0.5; {WHOLE} 1"),
    "order in words": (lambda: Fourier([0.0], [1.0], order="3"), f"order is '3'; {WHOLE} 1"),
    "order zero": (lambda: Polynomial(2, order=0), f"order is 0; {WHOLE} 1"),
    "no inputs": (lambda: Polynomial(0), f"n_inputs is 0; {WHOLE} 1"),
    "no states": (lambda: OneHot(0), f"size is 0; {WHOLE} 1"),
    "no tiles": (lambda: TileCoding([0.0], [1.0], n_tiles=0), f"n_tiles is 0; {WHOLE} 1"),
    "half a tiling": (lambda: TileCoding([0.0], [1.0], 2, 1.5), f"n_tilings is 1.5; {WHOLE} 1"),
    "one centre": (lambda: Radial([0.0], [1.0], n_centres=1), f"n_centres is 1; {WHOLE} 2"),
    "no width": (lambda: Radial([0.0], [1.0], width=0.0), "width is 0.0; it must be finite and a"),
    "low above high": (
        lambda: Fourier([0.0, 3.0], [1.0, 2.0]),
        "low 3.0 and high 2.0 in dimension 1; low must be below high",
    ),
    "low at high": (lambda: Box(1.0, 1.0), "low must be below high"),
    "low unknown": (lambda: Box(np.nan, 1.0), "low must be below high"),
    "two lows, three highs": (
        lambda: Box([0.0, 0.0], [1.0, 1.0, 1.0]),
        r"low of shape \(2,\) and high of shape \(3,\); give one number per dimension",
    ),
    "no dimensions": (lambda: Box([], []), "give one number per dimension"),
    "a matrix": (lambda: Box([[0.0]], [1.0]), "give one number per dimension"),
    "box of another size": (
        lambda: Polynomial(2, low=[0.0, 0.0, 0.0]),
        "the box has 3 dimensions; give 2 numbers, or one for all",
    ),
    "endless box": (lambda: Fourier([0.0], [np.inf]), r"Fourier needs a finite box; .* \(inf,\)"),
    "long observation": (
        lambda: Fourier([0.0], [1.0])([0.5, 0.5]),
        r"observation has the shape \(2,\); its last axis must hold 1 numbers",
    ),
    "scalar observation": (lambda: Polynomial(2)(0.5), r"shape \(\); its last axis must hold 2"),
    "short observation": (lambda: Polynomial(2).outside([0.5]), "its last axis must hold 2"),
    "no names": (lambda: Custom(first_two, []), "give one per feature, no two alike"),
    "one name twice": (lambda: Custom(first_two, ["x", "x"]), "no two alike"),
    "function of the wrong size": (
        lambda: Custom(first_two, ["a", "b", "c"])(np.ones((4, 3))),
        r"returned the shape \(4, 2\) .* shape \(4, 3\); it .* 3 numbers for 3 feature names",
    ),
    "function of the wrong axis": (
        lambda: Custom(lambda obs: np.stack([obs[..., 0]] * 2), ["a", "b"])(np.ones((5, 2))),
        r"returned the shape \(2, 5\) .* must keep the leading axes",
    ),
    "function that forgets the batch": (
        lambda: Custom(lambda obs: np.array([1.0, obs[0, 0]]), ["1", "b"])(np.ones((5, 2))),
        r"returned the shape \(2,\) .* must keep the leading axes",
    ),
    "function without features": (lambda: Custom(np.sum, ["sum"])(np.ones(3)), r"the shape \(\)"),
    "nothing to concatenate": (lambda: Concatenation([]), "no bases has no features; give at lea"),
    "negative scale": (
        lambda: Scaling(0.0, [1.0, -1.0]),
        r"scale has the entry -1.0; it must be fin",
    ),
    "unknown shift": (lambda: Scaling(np.nan, 1.0), "shift is nan; it must be finite"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_in_one_sentence(name):
    build, message = BAD[name]
    with pytest.raises(ValueError, match=message) as caught:
        build()
    assert "\n" not in str(caught.value)
