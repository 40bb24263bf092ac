from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from downside.exact.tree import (
    tree_centralised_lpm,
    tree_lpm,
    tree_mean,
    tree_proxy,
    tree_variance,
)

TREE_FORMS = [tree_mean, tree_variance, tree_lpm, tree_proxy, tree_centralised_lpm]
unit = st.floats(0.0, 1.0)


def enumerate_tree(right, up, discount):
    """Mean, variance, LPM about 0, proxy and centralised LPM from the four paths."""
    paths = [
        (p * q, (a, discount * b))
        for (p, a), (q, b) in product(
            [(right, 1.0), (1 - right, -1.0)], [(up, 1.0), (1 - up, -1.0)]
        )
    ]
    mean = sum(p * sum(rewards) for p, rewards in paths)
    return [
        mean,
        sum(p * (sum(rewards) - mean) ** 2 for p, rewards in paths),
        sum(p * max(-sum(rewards), 0.0) for p, rewards in paths),
        sum(p * sum(max(-r, 0.0) for r in rewards) for p, rewards in paths),
        sum(p * max(mean - sum(rewards), 0.0) for p, rewards in paths),
    ]


@given(right=unit, up=unit, discount=unit)
def test_tree_is_the_sum_over_its_paths(right, up, discount):
    expected = enumerate_tree(right, up, discount)

    assert [f(right, up, discount) for f in TREE_FORMS] == pytest.approx(expected, abs=1e-12)


@given(right=unit, up=unit)
def test_tree_without_discount_is_as_printed(right, up):
    assert tree_mean(right, up) == pytest.approx(2 * (right + up - 1), abs=1e-12)
    assert tree_lpm(right, up) == pytest.approx(2 * (1 - right) * (1 - up), abs=1e-12)
    assert tree_proxy(right, up) == pytest.approx(2 - right - up, abs=1e-12)


def test_tree_by_hand():
    # right 0.8, up 0.3: G is 2 with 0.24, 0 with 0.62, -2 with 0.14; mean 0.2
    # V = 4 - 4 * 0.62 - 0.04; LPM = 0.28; proxy = 0.2 + 0.7; centralised 0.62 * 0.2 + 0.14 * 2.2
    values = [f(0.8, 0.3) for f in TREE_FORMS]

    assert values == pytest.approx([0.2, 1.48, 0.28, 0.9, 0.432])


def test_only_the_fixed_target_singles_out_the_best_corner():
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]).T

    assert tree_variance(*corners).tolist() == [0.0] * 4
    assert tree_centralised_lpm(*corners).tolist() == [0.0] * 4
    assert tree_lpm(*corners).tolist() == [2.0, 0.0, 0.0, 0.0]
    assert tree_proxy(*corners).tolist() == [2.0, 1.0, 1.0, 0.0]


@pytest.mark.parametrize("form", TREE_FORMS)
def test_tree_broadcasts_for_numpy_and_jax(form):
    right, up = np.linspace(0.1, 0.9, 5)[:, None], np.linspace(0.2, 0.7, 3)
    table = form(right, up, 0.9)

    assert table.shape == (5, 3)
    assert table[3, 1] == pytest.approx(form(right[3, 0], up[1], 0.9))
    with jax.enable_x64(True):
        found = form(jnp.asarray(right), jnp.asarray(up), 0.9)
        assert isinstance(found, jax.Array)
        assert found == pytest.approx(table)


@pytest.mark.parametrize("form", TREE_FORMS)
def test_tree_has_gradients(form):
    step = 1e-6
    slope = (form(0.7 + step, 0.4, 0.9) - form(0.7 - step, 0.4, 0.9)) / (2 * step)
    with jax.enable_x64(True):
        assert jax.grad(form)(jnp.asarray(0.7), 0.4, 0.9) == pytest.approx(slope, abs=1e-6)
