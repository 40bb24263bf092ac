import numpy as np
import pytest
from gymnasium import spaces

from downside.bases import Fourier, Polynomial, Scaled
from downside.bases.layout import FromSpace, Layout
from downside.bases.scaling import Scaling
from downside.bases.spaces import basis_for
from downside.policies import Beta, Gaussian, Gibbs, SquashedGaussian
from downside.training.sampling import sampler

BOX = spaces.Box(-9.0, 9.0, (2,), np.float32)
SCALING = Scaling(np.array([0.3, -1.2]), np.array([0.05, 4.0]))


def from_space(basis):
    return FromSpace(Layout.of(BOX), basis)


POLICIES = {
    "polynomial": Gibbs(Polynomial(2, order=2, low=-1.0, high=1.0), 4),
    "of degree 1": Gaussian(from_space(Scaled(Polynomial(2), SCALING))),
    "scaled": Gaussian(from_space(Scaled(Polynomial(2, order=2, low=-2.0, high=3.0), SCALING))),
    "scaled features": Gaussian(Scaled(Polynomial(2, order=2), SCALING, Scaling(0.1, 2.0))),
    "cosines": Gaussian(Scaled(Fourier([-3.0, -1.0], [2.0, 4.0], order=2), SCALING)),
    "of degree 3": Gaussian(Polynomial(2, order=3)),
    "a network": Gibbs(Polynomial(2), 3, hidden=(5,)),
    "normal": Gaussian(Polynomial(2), size=2, floor=0.1),
    "squashed": SquashedGaussian(Polynomial(2, order=2), low=(-1.0, 0.0), high=(3.0, 0.5)),
    "beta": Beta(Polynomial(2), low=-1.0),
}


@pytest.mark.parametrize("name", POLICIES)
def test_the_prepared_sampler_draws_what_the_policy_draws(name):
    policy = POLICIES[name]
    rng = np.random.default_rng(2)
    theta = rng.normal(size=policy.n_params)
    sample = sampler(policy, theta)
    for _ in range(50):
        obs, noise = rng.normal(size=2), policy.draw(rng)
        np.testing.assert_allclose(
            sample(obs, noise), policy.sample(theta, obs, noise), rtol=1e-9, atol=1e-9
        )


@pytest.mark.parametrize(
    "space",
    [spaces.Discrete(4, start=2), spaces.Tuple([spaces.Discrete(3), BOX]), BOX],
    ids=lambda space: type(space).__name__,
)
def test_any_observations(space):
    rng = np.random.default_rng(3)
    space.seed(4)
    rows = [space.sample() for _ in range(40)]
    if isinstance(space, spaces.Tuple):
        sample = tuple(np.stack(part) for part in zip(*rows, strict=True))
    else:
        sample = np.stack(rows)
    policy = Gibbs(basis_for(space, sample, clipped=True), 3)
    theta = rng.normal(size=policy.n_params)
    choose = sampler(policy, theta)
    for obs in rows:
        noise = policy.draw(rng)
        assert choose(obs, noise) == policy.sample(theta, obs, noise)
