import jax
import jax.numpy as jnp
import numpy as np
import pytest

from downside.bases import Concatenation, Custom, Fourier, OneHot, Polynomial, Scaled, Scaling


def test_features_stand_one_after_the_other():
    basis = Concatenation([Fourier([0.0], [2.0], order=1), Polynomial(1, order=2)])
    assert basis.names == ("cos(0)", "cos(pi x1)", "1", "x1", "x1^2")
    expected = [1.0, np.cos(0.75 * np.pi), 1.0, 1.5, 2.25]
    assert basis(np.array([1.5])).tolist() == pytest.approx(expected)
    assert basis.constant.tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]


def test_a_concatenation_clips_each_part_on_its_own():
    basis = Concatenation([Polynomial(2), Polynomial(2, low=0.0, high=1.0)])
    obs = np.array([[3.0, -4.0], [0.5, 0.5], [0.5, 7.0]])
    assert basis(obs)[0].tolist() == [1.0, 3.0, -4.0, 1.0, 1.0, 0.0]
    assert basis.outside(obs).tolist() == [2, 0, 1]


def test_a_users_function_may_return_whole_numbers_and_take_indices():
    basis = Custom(lambda obs: obs[..., None] == np.array([0, 3]), ["first", "last"])
    assert basis(3).tolist() == [0.0, 1.0]
    assert basis([0, 3]).dtype == float
    assert basis.outside(np.array([0, 1, 3])).tolist() == [0, 0, 0]


def test_a_users_function_written_in_jax_serves_numpy_observations():
    basis = Custom(lambda obs: jnp.stack([jnp.sin(obs[..., 0]), obs[..., 1]], -1), ["sin", "x"])
    obs = np.array([[0.3, 2.0]])
    np.testing.assert_allclose(basis(obs), [[np.sin(0.3), 2.0]], rtol=1e-6)
    np.testing.assert_allclose(jax.jit(basis)(jnp.asarray(obs)), basis(obs), rtol=1e-6)


def test_scaled_by_hand():
    inputs, features = Scaling([1.0, -1.0], [2.0, 0.5]), Scaling([0.0, 3.0, 1.0], [1.0, 10.0, 0.0])
    basis = Scaled(Polynomial(2), inputs=inputs, features=features)
    # inputs (4 - 1) / 2 = 1.5 and (0 + 1) / 0.5 = 2; features 1, (1.5 - 3) / 10, 2 - 1
    assert basis(np.array([4.0, 0.0])).tolist() == pytest.approx([1.0, -0.15, 1.0])
    assert basis.names == ("1", "x1", "x2")


def test_what_is_clipped_is_the_scaled_input():
    basis = Scaled(Polynomial(1, low=-1.0, high=1.0), inputs=Scaling(10.0, 2.0))
    assert basis.outside(np.array([[11.0], [13.0]])).tolist() == [0, 1]
    assert basis(np.array([13.0])).tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("scaling", "constant"),
    [
        (Scaling(0.0, [0.0, 2.0, 4.0]), [1.0, 2.0, 4.0]),  # a scale of 0 counts as 1
        (Scaling([0.25, 0.0, 0.5], 2.0), [8.0, 8.0, 8.0]),  # 2 / (1 - 3/4)
        (Scaling([0.2, 0.3, 0.5], 2.0), None),  # centred away: the features sum to 0
        (Scaling(np.float32([0.2, 0.3, 0.5]), 2.0), None),
    ],
)
def test_the_constant_of_scaled_features(scaling, constant):
    basis = Scaled(OneHot(3), features=scaling)
    if constant is None:
        assert basis.constant is None
    else:
        assert basis.constant.tolist() == pytest.approx(constant)
        np.testing.assert_allclose(basis(np.arange(3)) @ basis.constant, 1.0)
