import jax
import numpy as np
import pytest

from downside.bases import Polynomial
from downside.policies.network import Outputs


def test_a_network_by_hand():
    outputs = Outputs(Polynomial(1), 2, (3,))
    params = np.random.default_rng(0).normal(size=outputs.n_params)
    first, bias, second, last = np.split(params, [6, 9, 15])
    hidden = np.tanh(first.reshape(3, 2) @ [1.0, 0.7] + bias)
    expected = second.reshape(2, 3) @ hidden + last
    np.testing.assert_allclose(outputs(params, np.array([0.7])), expected)
    assert outputs.n_params == 3 * 2 + 3 + 2 * 3 + 2


def test_linear_outputs_by_hand():
    outputs = Outputs(Polynomial(1), 2)
    assert outputs([1.0, 2.0, -3.0, 0.5], [4.0]).tolist() == [9.0, -1.0]


@pytest.mark.parametrize("key", [np.random.default_rng(1), jax.random.key(1)])
def test_initial_weights_have_the_size_that_keeps_units_alive(key):
    # 64 inputs: deviation 1/8; the last layer has 1/100 of 1/sqrt(50). 4 standard errors
    outputs = Outputs(Polynomial(63), 2, (50,))
    first, bias, second, last = np.split(np.asarray(outputs.init(key, None)), [3200, 3250, 3350])
    assert abs(first.std() * 8 - 1) <= 4 / np.sqrt(2 * 3200)
    assert abs(second.std() * 100 * np.sqrt(50) - 1) <= 4 / np.sqrt(2 * 100)
    assert not bias.any()
    assert not last.any()
