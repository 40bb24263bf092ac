"""The Fisher matrix of a batch."""

import jax.numpy as jnp
import numpy as np
import pytest

from downside.training import fisher


def test_a_large_one_is_applied_and_inverted_as_a_small_one(monkeypatch):
    rng = np.random.default_rng(6)
    score = rng.normal(size=(300, 12)) * np.linspace(0.2, 2.0, 12)
    gradient, damping = rng.normal(size=12), 0.3
    matrix = score.T @ score / 300
    expected = np.linalg.solve(matrix + damping * np.eye(12), gradient)
    for many in (100, 5):
        monkeypatch.setattr(fisher, "MANY", many)
        found = fisher.fisher_of(jnp.asarray(score, jnp.float32))
        v = jnp.asarray(gradient, jnp.float32)
        np.testing.assert_allclose(found.apply(v), matrix @ gradient, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(found.invert(jnp.float32(damping), v), expected, rtol=1e-3)
        assert float(found.size) == pytest.approx(np.trace(matrix) / 12, rel=1e-5)
