from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

from downside.training.units import units_after, units_before

RETURNS = jnp.array([[3.0, 11.0], [5.0, 13.0]])


def after(kind, units, returns=RETURNS, steps=10):
    agent = SimpleNamespace(risk_unit=kind, period=10)
    return units_after(agent, SimpleNamespace(units=units, steps=jnp.asarray(steps)), returns)


def test_a_risk_is_measured_in_its_size_or_in_its_spread():
    # Deviations from 4 and from 12 are 1; the mean square of 11 and 13 is 145.
    none = jnp.zeros(2)
    np.testing.assert_allclose(after("size", none), [1.0, 145.0**0.5], rtol=1e-6)
    np.testing.assert_allclose(after("spread", none), [1.0, 1.0], rtol=1e-6)


@pytest.mark.parametrize("kind", ["size", "spread"])
def test_what_is_known_stays(kind):
    known = jnp.array([7.0, 9.0])
    np.testing.assert_array_equal(after(kind, known, steps=20), known)


def test_a_spread_is_that_of_the_first_batch_in_which_there_is_any():
    unknown = units_before(SimpleNamespace(risk_unit="spread"), 2)
    same = jnp.full((50, 2), 0.1)  # whose deviation is not 0 after rounding
    np.testing.assert_array_equal(after("spread", unknown, same), [0.0, 0.0])
    found = after("spread", jnp.array([7.0, 0.0]), steps=20)
    np.testing.assert_allclose(found, [7.0, 1.0], rtol=1e-6)
