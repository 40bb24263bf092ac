import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import softmax

from downside.bases import OneHot, Polynomial
from downside.policies import Gaussian, Gibbs, Product

OBS = np.array([0.4])
GIBBS, GAUSSIAN = Gibbs(Polynomial(1), 3), Gaussian(Polynomial(1), size=2)
POLICY = Product([GIBBS, GAUSSIAN])
PARAMS = np.random.default_rng(0).normal(size=14)


def test_the_density_is_the_product():
    p = softmax(PARAMS[:6].reshape(3, 2) @ [1.0, 0.4])
    outputs = PARAMS[6:].reshape(4, 2) @ [1.0, 0.4]
    normal = stats.norm(outputs[:2], np.log1p(np.exp(outputs[2:])))
    action = np.array([2.0, 0.3, -1.1])
    expected = np.log(p[2]) + normal.logpdf(action[1:]).sum()
    assert POLICY.log_prob(PARAMS, OBS, action) == pytest.approx(expected)
    entropy = -p @ np.log(p) + normal.entropy().sum()
    assert POLICY.entropy(PARAMS, OBS) == pytest.approx(entropy)
    assert POLICY.mode(PARAMS, OBS).tolist() == pytest.approx([p.argmax(), *outputs[:2]])


def test_each_part_acts_on_its_own_noise():
    noise = POLICY.draw(np.random.default_rng(1), (5,))
    actions = POLICY.sample(PARAMS, OBS, noise)
    assert actions.shape == (5, 3)
    np.testing.assert_array_equal(actions[:, 0], GIBBS.sample(PARAMS[:6], OBS, noise[0]))
    np.testing.assert_array_equal(actions[:, 1:], GAUSSIAN.sample(PARAMS[6:], OBS, noise[1]))


def test_products_may_contain_products():
    nested = Product([Product([GIBBS]), Product([GAUSSIAN])])
    action = np.array([1.0, 0.3, -1.1])
    assert nested.log_prob(PARAMS, OBS, action) == POLICY.log_prob(PARAMS, OBS, action)


def test_rows_stand_side_by_side_where_all_are_linear_in_the_same_features():
    def shapes(policy):
        params, action = jnp.zeros(policy.n_params), jnp.zeros(policy.action_shape)
        return [x.shape for x in policy.factors(params, OBS, action)]

    assert shapes(POLICY) == [(3 + 4 + 1,), (2,)]
    another = Gaussian(Polynomial(1, order=2), size=2)
    for other in (
        Product([GIBBS, another]),
        Product([GIBBS, GAUSSIAN], state_basis=Polynomial(1, order=2)),
        Product([GIBBS, Gaussian(Polynomial(1), hidden=(3,))]),
        Product([GIBBS, Product([GAUSSIAN])]),
    ):
        assert shapes(other) == [(other.n_params + other.baseline(OBS).size,), (1,)]


def test_the_parts_start_as_they_say_and_differ():
    parts = [Gaussian(Polynomial(1), hidden=(3,), start=s, width=0.5) for s in (1.0, -4.0)]
    policy = Product(parts)
    params = policy.init(jax.random.key(0))
    assert policy.mode(params, OBS).tolist() == pytest.approx([1.0, -4.0], abs=0.2)
    assert not np.allclose(params[: parts[0].n_params][:3], params[parts[0].n_params :][:3])


def test_the_baseline_may_have_its_own_basis():
    assert POLICY.baseline(OBS).tolist() == [1.0, 0.4]
    own = Product([GIBBS, GAUSSIAN], state_basis=Polynomial(1, order=3))
    assert own.baseline(OBS).tolist() == pytest.approx([1.0, 0.4, 0.16, 0.064])
    assert Product([Gibbs(OneHot(3), 2)]).baseline(2).tolist() == [0.0, 0.0, 1.0]
