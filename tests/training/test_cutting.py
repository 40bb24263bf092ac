from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

from downside.control import NAC, NRCPO
from downside.environments import Portfolio, Tabular
from downside.records import record
from downside.signals import Fixed
from downside.training.cutting import cut_short, usual_limit, with_the_rest
from downside.training.learner import Episode


@record
class Step:
    next_obs: object
    time: object
    terminated: object
    truncated: object


def step(time, terminated=False, truncated=False):
    return Step(
        jnp.asarray(0.5), jnp.asarray(time), jnp.asarray(terminated), jnp.asarray(truncated)
    )


def agent(limit):
    return SimpleNamespace(
        episode_limit=limit, features=lambda obs, time: jnp.stack([obs, time * 1.0])
    )


@pytest.mark.parametrize(
    ("given", "cut"),
    [(step(3), False), (step(4), True), (step(5), True), (step(4, terminated=True), False)],
)
def test_an_episode_of_five_steps_is_cut_at_the_fifth(given, cut):
    assert bool(cut_short(agent(5), given).truncated) == cut
    assert cut_short(agent(None), given) is given


def test_what_would_have_followed_is_predicted():
    # Predictions at the next state [0.5, 5]: 2 * 0.5 + 0.1 * 5 = 1.5 and 4 * 0.5 + 0.2 * 5 = 3;
    # they are discounted by what the episode has come to.
    episode = Episode(
        jnp.array([0.5, 0.25]), jnp.array([7.0, 1.0]), jnp.zeros(()), jnp.asarray(5), None
    )
    learner = SimpleNamespace(weights=jnp.array([[2.0, 0.1], [4.0, 0.2]]))
    cut = with_the_rest(agent(5), learner, episode, step(4, truncated=True))
    np.testing.assert_allclose(cut.sums, [7.75, 1.75], rtol=1e-6)
    for over in (step(4), step(4, terminated=True)):
        np.testing.assert_array_equal(with_the_rest(agent(5), learner, episode, over).sums, [7, 1])


def test_only_discounted_problems_without_an_end_are_cut():
    assert usual_limit(0.9, None) == 30
    assert usual_limit(0.5, None) == 6
    assert NAC(Portfolio(discount=0.9))._settings.episode_limit is None
    assert NAC(never_ending(0.8))._settings.episode_limit == 15
    assert NAC(never_ending(0.8), episode_limit=40)._settings.episode_limit == 40
    with pytest.raises(ValueError, match="episode_limit"):
        NAC(never_ending(0.8), episode_limit=0)


def never_ending(discount):
    """A first choice, 1 for sure or 4 and -1 with equal chance, and then nothing for ever."""
    return Tabular(
        transitions=np.array([[[1.0, 0.0], [0.5, 0.5]], [[1.0, 0.0], [1.0, 0.0]]]),
        next_states=np.ones((2, 2, 2), int),
        rewards=np.array([[[1.0, 1.0], [4.0, -1.0]], [[0.0, 0.0], [0.0, 0.0]]]),
        discount=discount,
    )


@pytest.mark.slow
def test_the_first_choice_of_an_episode_without_an_end_is_learnt_under_a_bound():
    # Shortfalls below 5 (1 - 0.8) = 1 a step. After the first one each costs 1, 0.8 + 0.8^2 + ...
    # = 4 in all; the risky choice adds 1 (2 with probability 1/2). Under a bound of 4.4 it is taken
    # with probability 0.4. Without a cut there is one first choice. The policy swings about the
    # bound, each batch telling the risk of its 133 episodes within 0.09; over 32 other seeds, what
    # is shown has a standard deviation of 0.03. Two of these seeds would stay at the sure choice,
    # if it were not left now and then while the multiplier is 0.
    env = never_ending(0.8)
    made = NRCPO(env, target=Fixed(5.0), threshold=4.4, n_seeds=16)
    made.learn(400_000, progress_bar=False)
    logits = np.array([made.policy.preferences(one, np.float32(0)) for one in made.theta])
    risky = np.exp(logits[:, 1]) / np.exp(logits).sum(axis=1)
    np.testing.assert_allclose(risky, 0.4, atol=0.12)
    late = made.records.risks[-10:, :, 0].mean(axis=0)
    assert np.mean(late) == pytest.approx(4.4, abs=0.05)
