import numpy as np
import optax
import pytest
from jax.tree_util import Partial

from downside.bases import Polynomial
from downside.environments import Portfolio, Tabular
from downside.policies import Gibbs
from downside.store.plain import encode
from downside.training.describing import describe


def shifted(by):
    return lambda transition: transition.reward - by


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Portfolio(), Portfolio(default_probability=0.2)),
        (Gibbs(Polynomial(6), 11), Gibbs(Polynomial(6), 10)),
        (shifted(1.0), shifted(2.0)),
        (lambda x: x + 1, lambda x: x + 2),
        (lambda x: np.sin(x), lambda x: np.cos(x)),
        (optax.linear_schedule(0.1, 0.0, 50), optax.linear_schedule(0.2, 0.0, 50)),
        (Partial(max, 1), Partial(max, 2)),
        (np.arange(40.0), np.arange(40.0) + 1),
        (np.zeros(40), np.zeros((4, 10))),
        ((1, 2.0), (1, 3.0)),
        ({"a": float("inf")}, {"a": 1.0}),
    ],
)
def test_what_differs_is_described_differently_and_can_be_written(one, other):
    assert encode("one", {"value": describe(one)}) == encode("same", {"value": describe(one)})
    assert encode("one", {"value": describe(one)}) != encode("other", {"value": describe(other)})


def test_equal_settings_made_twice_are_described_equally():
    make = lambda: (Portfolio(), shifted(1.0), Tabular([[[1.0]]], [[[2.0]]], horizon=3))  # noqa: E731
    assert describe(make()) == describe(make())
