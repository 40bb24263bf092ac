import itertools

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.vector import AutoresetMode

from downside.environments import Bandit, Portfolio
from downside.environments.copies import Stream, begin, pick, step


def stream(first: int, second: int, index: int, episode: int) -> Stream:
    return Stream(jnp.array([first, second], jnp.uint32), jnp.uint32(index), jnp.uint32(episode))


def test_every_number_of_a_stream_changes_what_is_drawn():
    @jax.jit
    def pull(source: Stream):
        _, outcome = step(Bandit(), begin(Bandit(), source), jnp.asarray(0), AutoresetMode.DISABLED)
        return outcome.reward

    numbers = itertools.product((3, 4), (3, 4), (3, 4), (3, 4))
    rewards = [float(pull(stream(*each))) for each in numbers]
    assert len(set(rewards)) == 16


def test_the_next_episode_keeps_seed_and_index():
    following = stream(7, 8, 2, 5).next_episode()
    assert following.seed.tolist() == [7, 8]
    assert (int(following.index), int(following.episode)) == (2, 6)


def test_a_step_keeps_its_types_so_that_it_is_compiled_once():
    env = Portfolio(horizon=3)
    start = begin(env, stream(7, 8, 2, 5))
    for mode in AutoresetMode:
        after, _ = jax.eval_shape(
            lambda copy, mode=mode: step(env, copy, jnp.asarray(4), mode), start
        )
        before = jax.eval_shape(lambda copy: copy, start)
        assert jax.tree.leaves(before) == jax.tree.leaves(after)
        weak = [leaf.weak_type for leaf in jax.tree.leaves((before, after))]
        assert not any(weak)


def test_pick_takes_all_of_one_copy():
    env = Portfolio()
    left, right = begin(env, stream(7, 8, 2, 5)), begin(env, stream(9, 10, 3, 6))
    for condition, expected in ((True, left), (False, right)):
        picked = pick(jnp.asarray(condition), left, right)
        for value, reference in zip(
            jax.tree.leaves(picked), jax.tree.leaves(expected), strict=True
        ):
            np.testing.assert_array_equal(value, reference)
