import jax
import jax.numpy as jnp
import numpy as np
import pytest

from downside.environments import Tree
from downside.environments.episodes import rollout
from downside.exact.tree import tree_lpm, tree_mean, tree_proxy, tree_variance
from simulation_checks import AS_ARRAY, agrees, is_refused, noise, walk


@pytest.mark.parametrize(
    ("first", "second", "nodes", "rewards"),
    [
        (0, 0, (1, 3), (-1.0, -1.0)),
        (0, 1, (1, 4), (-1.0, 1.0)),
        (1, 0, (2, 5), (1.0, -1.0)),
        (1, 1, (2, 6), (1.0, 1.0)),
    ],
)
def test_paths_by_hand(first, second, nodes, rewards):
    steps = walk(Tree(discount=0.9), [first, second], [noise(), noise()])

    assert tuple(int(step.next_obs) for step in steps) == nodes
    assert tuple(float(step.reward) for step in steps) == rewards
    assert tuple(float(step.mean_reward) for step in steps) == rewards
    assert [int(step.time) for step in steps] == [0, 1]
    assert [bool(step.terminated) for step in steps] == [False, True]
    assert [float(step.discount) for step in steps] == pytest.approx([0.9, 0.0])


@pytest.mark.slow
def test_returns_have_their_closed_forms():
    right, up, discount = 0.7, 0.35, 0.8

    def act(obs, key):
        chance = jnp.where(obs == 0, right, up)
        return (jax.random.uniform(key) < chance).astype(int)

    def measure(step):
        return step.reward, jnp.maximum(-step.reward, 0.0)

    sums = rollout(Tree(discount), act, jax.random.key(3), 40_000, measure=measure)
    returns, proxies = (np.asarray(x, float) for x in sums.discounted)
    mean = tree_mean(right, up, discount)

    agrees(returns, mean)
    agrees((returns - mean) ** 2, tree_variance(right, up, discount))
    agrees(np.maximum(-returns, 0.0), tree_lpm(right, up, discount))
    agrees(proxies, tree_proxy(right, up, discount))


@AS_ARRAY
def test_a_bad_discount_is_refused(as_array):
    is_refused(Tree, "discount", 1.2, r"discount is 1\.2; .*\[0, 1\]", as_array)
