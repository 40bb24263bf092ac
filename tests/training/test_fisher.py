"""The Fisher matrix of a batch."""

import jax.numpy as jnp
import numpy as np
import pytest

from downside.training import fisher


def undivided(score):
    return fisher.Scores(jnp.asarray(score, jnp.float32), jnp.ones((len(score), 1)))


@pytest.mark.parametrize("n_rows", [12, 4, 3])
def test_a_large_one_is_applied_and_inverted_as_a_small_one(monkeypatch, n_rows):
    rng = np.random.default_rng(6)
    rows, columns = rng.normal(size=(300, n_rows)), rng.normal(size=(300, 12 // n_rows))
    rows = rows * np.linspace(0.2, 2.0, n_rows)
    score = np.einsum("ta,tf->taf", rows, columns).reshape(300, 12)
    gradient, damping = rng.normal(size=12), 0.3
    matrix = score.T @ score / 300
    expected = np.linalg.solve(matrix + damping * np.eye(12), gradient)
    for many in (100, 5):
        monkeypatch.setattr(fisher, "MANY", many)
        scores = fisher.Scores(*(jnp.asarray(x, jnp.float32) for x in (rows, columns)))
        found = fisher.fisher_of(scores)
        v = jnp.asarray(gradient, jnp.float32)
        np.testing.assert_allclose(found.apply(v), matrix @ gradient, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(found.invert(jnp.float32(damping), v), expected, rtol=1e-3)
        assert float(found.size) == pytest.approx(np.trace(matrix) / 12, rel=1e-5)


def test_a_large_one_of_numbered_states_is_a_block_for_each_state(monkeypatch):
    # Scores of a Gibbs policy on one-hot states are e_s x (e_a - p_s): F is made of one block for
    # each state, E[(e_a - p)(e_a - p)'], and its inverse of theirs.
    monkeypatch.setattr(fisher, "MANY", 5)
    rng = np.random.default_rng(3)
    n_states, n_actions, n_steps, damping = 4, 3, 200, 0.05
    states, actions = rng.integers(n_states, size=n_steps), rng.integers(n_actions, size=n_steps)
    p = rng.dirichlet(np.ones(n_actions), size=n_states)
    inner = np.eye(n_actions)[actions] - p[states]
    score = (np.eye(n_states)[states][:, :, None] * inner[:, None]).reshape(n_steps, -1)
    gradient = rng.normal(size=(n_states, n_actions))
    blocks = [inner[states == s].T @ inner[states == s] / n_steps for s in range(n_states)]
    rows = zip(blocks, gradient, strict=True)
    expected = [np.linalg.solve(block + damping * np.eye(n_actions), g) for block, g in rows]
    found = fisher.fisher_of(undivided(score))
    solved = found.invert(jnp.float32(damping), jnp.asarray(gradient.ravel(), jnp.float32))
    np.testing.assert_allclose(solved, np.concatenate(expected), rtol=1e-3, atol=1e-3)

    # The same of a table, whose parameters are in the order (action, state), is exact.
    by_action = score.reshape(n_steps, n_states, n_actions).swapaxes(1, 2).reshape(n_steps, -1)
    table = fisher.fisher_of(undivided(by_action), n_states)
    solved = table.invert(jnp.float32(damping), jnp.asarray(gradient.T.ravel(), jnp.float32))
    np.testing.assert_allclose(solved, np.stack(expected).T.ravel(), rtol=1e-5, atol=1e-5)
    image = table.apply(jnp.asarray(gradient.T.ravel(), jnp.float32))
    rows = [block @ g for block, g in zip(blocks, gradient, strict=True)]
    np.testing.assert_allclose(image, np.stack(rows).T.ravel(), rtol=1e-5, atol=1e-6)
    assert float(table.size) == pytest.approx(float(found.size), rel=1e-5)
