import jax.numpy as jnp
import numpy as np
import pytest

from downside.bases import OneHot


def test_every_state_has_its_own_feature():
    np.testing.assert_array_equal(OneHot(4)(np.arange(4)), np.eye(4))
    assert OneHot(2).names == ("state 0", "state 1")


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32, np.float32, bool])
def test_any_kind_of_number_is_an_index(dtype):
    basis = OneHot(300)  # more than 8 bits
    assert basis(np.array(1, dtype)).argmax() == 1
    assert basis(jnp.array(1, dtype)).argmax() == 1


def test_what_is_no_state_counts_as_the_nearest():
    basis, obs = OneHot(3), np.array([1.4, -0.2, np.nan])
    assert basis(obs).tolist() == [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    assert basis.outside(obs).tolist() == [1, 1, 1]
