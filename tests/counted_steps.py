"""Steps to be counted, and where they lead on average."""

import jax.numpy as jnp
import numpy as np

from downside.training.batches import Steps
from downside.training.fisher import Scores


def some_steps(x, action, cumulants, next_x, ended, time):
    """A batch among three states with two actions; ``x`` are numbers of states."""
    n = len(action)
    return Steps(
        x=jnp.eye(3)[jnp.asarray(x)],
        next_x=jnp.eye(3)[jnp.asarray(next_x)],
        scores=Scores(jnp.zeros((n, 2)), jnp.zeros((n, 3))),
        log_prob=jnp.zeros(n),
        cumulants=jnp.asarray(cumulants, float)[:, None],
        discounts=jnp.where(jnp.asarray(ended, bool), 0.0, 0.5)[:, None],
        over=jnp.asarray(ended, bool),
        action=jnp.asarray(action),
        time=jnp.asarray(time),
    )


def expected_moves(mdp):
    """The chance (states, actions, states) that a step leads there and the episode goes on."""
    moves = np.zeros((mdp.n_states, mdp.n_actions, mdp.n_states))
    for s, a, k in np.ndindex(mdp.transitions.shape):
        if not mdp.ends[s, a, k]:
            moves[s, a, mdp.next_states[s, a, k]] += mdp.transitions[s, a, k]
    return moves
