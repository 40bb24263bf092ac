import os
import subprocess
import sys
from functools import partial, wraps

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.tree_util import Partial

from downside.bases import Polynomial
from downside.environments import Portfolio, Tabular
from downside.policies import Gibbs
from downside.signals import Reward
from downside.store.plain import encode
from downside.training.batches import Batches
from downside.training.describing import describe


class Plain:
    def __init__(self, number):
        self.number, self.me = number, self

    def method(self):
        return self.number


def wrapped(by):
    @wraps(max)
    def inner(x):
        return x * by

    return inner


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
        ({1, 2}, {1, 3}),
        (jnp.exp, jnp.sin),
        (max, min),
        (int, str),
        (jax.jit(lambda x: x + 1), jax.jit(lambda x: x + 2)),
        (partial(max, 1), partial(max, 2)),
        (jax.random.key(1), jax.random.key(2)),
        (Plain(1), Plain(2)),
        (Plain(1).method, Plain(2).method),
        (wrapped(2), wrapped(3)),
        (lambda x, *, by=1: x, lambda x, *, by=2: x),
        (jax.grad(shifted(1.0)), shifted(1.0)),
        (range(3), range(4)),
        (b"a", b"b"),
        ({"a": float("inf")}, {"a": 1.0}),
    ],
)
def test_what_differs_is_described_differently_and_can_be_written(one, other):
    assert encode("one", {"value": describe(one)}) == encode("same", {"value": describe(one)})
    assert encode("one", {"value": describe(one)}) != encode("other", {"value": describe(other)})


def test_equal_settings_made_twice_are_described_equally():
    make = lambda: (Portfolio(), shifted(1.0), Tabular([[[1.0]]], [[[2.0]]], horizon=3))  # noqa: E731
    assert describe(make()) == describe(make())


def test_functions_are_described_alike_in_every_process():
    script = (
        "from downside.training.describing import describe\n"
        "print(describe(lambda x: x in {'a', 'b', 'c', 'd', 'e'}), describe({'u', 'v', 'w'}))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in (1, 2, 3)
    }
    assert len(found) == 1


def test_a_field_that_came_later_counts_once_it_is_changed():
    policy = Gibbs(Polynomial(6), 11)
    kept, changed = (
        Batches(Portfolio(), policy, (Reward(0.9),), annealed=x) for x in (False, True)
    )
    assert "annealed" not in describe(kept)
    assert describe(changed)["annealed"] is True


def test_schedules_with_names_that_were_never_given_a_value():
    # optax leaves the cell of clip_fn empty unless there is an end_value.
    half, third = (optax.exponential_decay(1.0, 100, rate) for rate in (0.5, 1 / 3))
    assert describe(half) == describe(optax.exponential_decay(1.0, 100, 0.5))
    assert describe(half) != describe(third)
