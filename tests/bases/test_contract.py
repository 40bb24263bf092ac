"""What every basis promises. A new basis is one line in BASES."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from downside.bases import (
    Concatenation,
    Custom,
    Fourier,
    OneHot,
    Polynomial,
    Radial,
    RunningMoments,
    Scaled,
    Scaling,
    TileCoding,
)

LOW, HIGH = np.array([-1.0, 2.0]), np.array([0.5, 7.0])  # of the observations below
N_STATES = 5


def products(obs):
    xp = obs.__array_namespace__()
    return xp.stack([xp.ones_like(obs[..., 0]), obs[..., 0] * obs[..., 1]], axis=-1)


def running_scaling(size, **options):
    moments = RunningMoments.of_size(size)
    for x in np.random.default_rng(5).normal(0.7, 2.0, (9, size)):
        moments = moments.update(x)
    return moments.scaling(**options)


BASES = {
    "fourier": Fourier(LOW, HIGH, order=3),
    "polynomial": Polynomial(2, order=3),
    "polynomial on a box": Polynomial(2, order=2, low=LOW, high=HIGH),
    "tiles": TileCoding(LOW, HIGH, n_tiles=4, n_tilings=8),
    "one-hot": OneHot(N_STATES),
    "radial": Radial(LOW, HIGH, n_centres=3, width=0.8),
    "function": Custom(products, ["1", "x1 x2"]),
    "function without a constant": Custom(lambda obs: obs**2, ["x1^2", "x2^2"]),
    "concatenation": Concatenation([Custom(lambda obs: obs, ["a", "b"]), Radial(LOW, HIGH, 2)]),
    "scaled inputs": Scaled(Polynomial(2, order=2), inputs=Scaling(LOW, HIGH - LOW)),
    "scaled features": Scaled(Fourier(LOW, HIGH, order=1), features=running_scaling(4)),
    "scale only": Scaled(Polynomial(2), running_scaling(2), running_scaling(3, centred=False)),
}
CLIPPED = ["fourier", "polynomial on a box", "tiles", "one-hot", "radial"]


@pytest.fixture(params=BASES, name="basis")
def every_basis(request):
    return BASES[request.param]


def observations(basis, shape=(6,), seed=1):
    rng = np.random.default_rng(seed)
    if isinstance(basis, OneHot):
        return rng.integers(N_STATES, size=shape)
    return rng.uniform(LOW, HIGH, (*shape, 2))


@jax.jit
def compiled(basis, obs):
    return basis(obs)


def test_there_is_a_name_for_each_feature(basis):
    features = basis(observations(basis, shape=()))
    assert features.shape == (basis.n_features,) == (len(basis.names),)
    assert len(set(basis.names)) == len(basis.names)


@pytest.mark.parametrize(("dtype", "rounding"), [("float32", 2e-5), ("float64", 1e-13)])
def test_numpy_and_jax_give_the_same_numbers(basis, dtype, rounding):
    obs = observations(basis).astype(dtype)
    with jax.enable_x64(dtype == "float64"):
        features = compiled(basis, jnp.asarray(obs))
    assert basis(obs).dtype == features.dtype == dtype
    assert isinstance(basis(obs), np.ndarray)
    np.testing.assert_allclose(features, basis(obs), rtol=rounding, atol=rounding)


def test_single_precision_is_the_rounding_of_double_precision(basis):
    obs = observations(basis).astype(np.float32)
    np.testing.assert_allclose(basis(obs), basis(obs.astype(float)), rtol=2e-5, atol=2e-5)


def test_whole_numbers_are_observations_too(basis):
    obs = observations(basis).round().astype(np.int32)
    np.testing.assert_array_equal(basis(obs), basis(obs.astype(float)))
    assert compiled(basis, jnp.asarray(obs)).dtype == jnp.float32


def test_a_batch_is_a_loop(basis):
    obs = observations(basis, shape=(3, 4))
    one_by_one = [[basis(obs[i, j]) for j in range(4)] for i in range(3)]
    np.testing.assert_allclose(basis(obs), one_by_one, rtol=1e-13, atol=1e-13)
    vmapped = jax.vmap(jax.vmap(basis))(jnp.asarray(obs, jnp.float32))
    np.testing.assert_allclose(vmapped, one_by_one, rtol=2e-5, atol=2e-5)
    assert basis.outside(obs).shape == (3, 4)


def test_the_weights_of_the_constant_give_one(basis):
    obs = observations(basis, shape=(40,), seed=2)
    if basis.constant is None:
        assert BASES["function without a constant"] is basis
    else:
        np.testing.assert_allclose(basis(obs) @ basis.constant, 1.0, rtol=1e-12)


def test_nothing_is_outside_within_the_box(basis):
    obs = observations(basis, shape=(40,), seed=3)
    assert basis.outside(obs).tolist() == [0] * 40
    assert basis.outside(jnp.asarray(obs)).tolist() == [0] * 40


@pytest.mark.parametrize("name", CLIPPED)
def test_what_lies_outside_is_clipped_and_counted(name):
    basis = BASES[name]
    if name == "one-hot":
        far, near, counts = np.array([-3, 2, 9]), np.array([0, 2, 4]), [1, 0, 1]
    else:
        far = np.array([[-1.5, 3.0], [0.1, 9.0], [7.0, -7.0], [np.inf, 4.0]])
        near, counts = np.clip(far, LOW, HIGH), [1, 1, 2, 1]
    for asarray in (np.asarray, jnp.asarray):
        np.testing.assert_array_equal(basis(asarray(far)), basis(asarray(near)))
        assert basis.outside(asarray(far)).tolist() == counts
    assert np.ravel(basis.outside(near * np.nan)).all()


@pytest.mark.parametrize(
    "name", sorted(set(BASES) - {*CLIPPED, "scaled features", "concatenation"})
)
def test_without_a_box_nothing_is_clipped(name):
    basis, far = BASES[name], np.array([-20.0, 30.0])
    assert basis.outside(far) == 0
    assert not np.allclose(basis(far), basis(np.clip(far, LOW, HIGH)))


def test_it_survives_the_way_through_jax(basis):
    leaves, structure = jax.tree.flatten(basis)
    again = jax.tree.unflatten(structure, leaves)
    obs = observations(basis)
    np.testing.assert_array_equal(again(obs), basis(obs))
    assert again.names == basis.names
    if not isinstance(basis, Scaled):  # the arrays of a scaling have no hash
        assert hash(again) == hash(basis)
        assert again == basis


def test_it_can_be_built_while_jax_is_tracing():
    @jax.jit
    def bump(width):
        return Radial(LOW, HIGH, n_centres=2, width=width)(jnp.array([0.1, 4.0]))

    expected = Radial(LOW, HIGH, n_centres=2, width=0.7)(np.array([0.1, 4.0]))
    np.testing.assert_allclose(bump(0.7), expected, rtol=1e-5)
    np.testing.assert_allclose(jax.vmap(bump)(jnp.array([0.3, 0.7]))[1], expected, rtol=1e-5)
