import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from downside.environments import Tabular

GAMES = [
    ("FrozenLake-v1", {"is_slippery": True}),
    ("CliffWalking-v1", {"is_slippery": True}),
    ("CliffWalking-v1", {"is_slippery": False}),
    ("Taxi-v4", {}),
]


def chain(**changes):
    """Two states; action 0 stays and pays 1, action 1 moves on with probability 0.75."""
    tables = {
        "transitions": [[[1.0, 0.0], [0.25, 0.75]], [[0.0, 1.0], [0.0, 1.0]]],
        "rewards": [[[1.0], [2.0]], [[0.5], [0.5]]],
        "terminal": [1],
        "discount": 0.9,
    }
    return Tabular(**(tables | changes))


@pytest.mark.parametrize(("name", "options"), GAMES)
def test_the_table_of_gymnasium_is_read_outcome_by_outcome(name, options):
    env = gymnasium.make(name, **options).unwrapped
    mdp = Tabular.from_gymnasium(name, **options)

    for state, actions in env.P.items():
        for action, outcomes in actions.items():
            possible = mdp.transitions[state, action] > 0
            read = sorted(
                zip(
                    mdp.transitions[state, action][possible],
                    mdp.next_states[state, action][possible],
                    mdp.rewards[state, action][possible],
                    mdp.ends[state, action][possible],
                    strict=True,
                )
            )
            assert read == sorted(tuple(outcome) for outcome in outcomes if outcome[0] > 0)
    assert np.array_equal(mdp.start, env.initial_state_distrib)


def test_one_next_state_may_pay_differently_and_end_or_not():
    env = gymnasium.make("CliffWalking-v1", is_slippery=True)
    mdp = Tabular.from_gymnasium(env)
    # Above the cliff (state 25): slipping down leads back to the start at a cost of 100; from the
    # start's own cell the same state costs 1.
    falls = (mdp.next_states == 36) & (mdp.transitions > 0)
    assert set(mdp.rewards[falls].tolist()) == {-100.0, -1.0}


@pytest.mark.slow
def test_outcomes_are_drawn_with_their_probabilities():
    # 40,000 draws: 4 standard errors of a share of 0.3 are 0.0092.
    mdp = Tabular(
        transitions=[[[0.3, 0.0, 0.7]]],
        rewards=[[[1.0, 50.0, -2.0]]],
        next_states=[[[0, 0, 0]]],
        reward_std=0.0,
        horizon=1,
    )
    noise = mdp.draw(jax.random.key(4), (40_000,))
    state, _ = mdp.reset(mdp.draw(jax.random.key(0)))
    rewards = jax.vmap(lambda n: mdp.transition(state, jnp.asarray(0), n).reward)(noise)
    assert abs(np.mean(np.asarray(rewards) == 1.0) - 0.3) < 0.0092
    assert set(np.unique(rewards).tolist()) == {1.0, -2.0}


def test_start_states_are_drawn_from_the_start_distribution():
    mdp = chain(start=[0.2, 0.8])
    noise = mdp.draw(jax.random.key(4), (40_000,))
    first = jax.vmap(lambda n: mdp.reset(n)[1])(noise)
    assert abs(np.mean(np.asarray(first)) - 0.8) < 4 * np.sqrt(0.16 / 40_000)


def test_a_terminal_state_ends_the_episode_and_the_horizon_does_too():
    mdp = chain(horizon=2)
    assert mdp.ends[0].tolist() == [[False, True], [False, True]]
    state, _ = mdp.reset(mdp.draw(jax.random.key(0)))
    first = mdp.step(jax.random.key(1), state, jnp.asarray(0))
    second = mdp.step(jax.random.key(2), first.next_state, jnp.asarray(0))
    assert (bool(first.terminated), bool(second.terminated)) == (False, True)
    assert (float(first.discount), float(second.discount)) == (pytest.approx(0.9), 0.0)


def test_mean_reward_averages_the_outcomes():
    mdp = chain(rewards=[[[1.0, 0.0], [2.0, 6.0]], [[0.5, 0.5], [0.5, 0.5]]])
    state, _ = mdp.reset(mdp.draw(jax.random.key(0)))
    assert float(mdp.mean_reward(state, jnp.asarray(1))) == pytest.approx(0.25 * 2 + 0.75 * 6)


@pytest.mark.parametrize(
    ("changes", "advice"),
    [
        ({"transitions": [[0.5, 0.5]]}, r"shape \(1, 2\); it must be \(states, actions, outcomes"),
        (
            {"transitions": [[[1.0, 0.1], [0.2, 0.8]], [[0.0, 1.0], [0.0, 1.0]]]},
            r"sums to 1.1 at \(states, actions\) = \(0, 0\); probabilities sum to 1",
        ),
        (
            {"transitions": [[[1.5, -0.5], [0.2, 0.8]], [[0.0, 1.0], [0.0, 1.0]]]},
            r"a probability lies in \[0, 1\]",
        ),
        ({"rewards": np.ones((3, 2, 2))}, r"rewards has the shape \(3, 2, 2\)"),
        ({"rewards": np.full((2, 2, 2), np.nan)}, "rewards has the entry nan; it must be finite"),
        ({"rewards": np.array([[["a"]]])}, "rewards must be a table of numbers"),
        ({"next_states": np.full((2, 2, 2), 0.7)}, "a state is a whole number from 0 to 1"),
        ({"ends": 0.3}, "neither true nor false"),
        ({"transitions": np.zeros((0, 0, 0))}, "at least one of each"),
        ({"reward_std": -0.1}, "reward_std"),
        ({"next_states": np.full((2, 2, 2), 2)}, "a state is a whole number from 0 to 1"),
        ({"terminal": [5]}, "a state is a whole number from 0 to 1"),
        ({"start": [0.5, 0.6]}, "start sums to 1.1"),
        ({"start": [1.0]}, r"start has the shape \(1,\); it must be \(2,\)"),
        ({"discount": 1.2}, r"discount is 1.2; a probability lies in \[0, 1\]"),
        ({"horizon": 0}, "horizon is 0; it must be a whole number, at least 1"),
        ({"transitions": np.ones((3, 2, 1))}, "give next_states"),
    ],
)
def test_bad_tables_are_refused_with_advice(changes, advice):
    with pytest.raises(ValueError, match=advice):
        chain(**changes)


def test_tables_may_be_traced():
    def first_reward(scale):
        mdp = chain(rewards=scale * jnp.array([[[1.0], [2.0]], [[0.5], [0.5]]]))
        state, _ = mdp.reset(mdp.draw(jax.random.key(0)))
        return mdp.step(jax.random.key(1), state, jnp.asarray(0)).reward

    assert jax.vmap(first_reward)(jnp.array([1.0, 3.0])).tolist() == [1.0, 3.0]


def test_an_environment_without_a_table_is_named():
    with pytest.raises(ValueError, match="CartPole-v1 has no table P"):
        Tabular.from_gymnasium("CartPole-v1")
