"""What every policy promises. A new policy is one line in POLICIES.

Random tests allow 4 standard errors; a correct number fails one of them once in 15,000 seeds.
"""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from downside.bases import Custom, Fourier, Polynomial
from downside.policies import Beta, Gaussian, Gibbs, Product, SquashedGaussian
from downside.policies.base import one_factor

BASIS = Polynomial(2)
WAVES = Fourier([-1.0, -1.0], [1.0, 1.0], order=1)
LOW, HIGH = [-2.0, 1.0], [0.5, 4.0]  # a box with unequal limits

POLICIES = {
    "gibbs": Gibbs(BASIS, 3),
    "gibbs, network": Gibbs(WAVES, 4, hidden=(5,)),
    "gaussian": Gaussian(WAVES, size=2),
    "gaussian, network": Gaussian(BASIS, hidden=(4, 3), floor=0.05),
    "beta": Beta(BASIS, LOW, HIGH),
    "beta, mean": Beta(WAVES, low=-1.0, high=3.0, parameters="mean"),
    "beta, network": Beta(BASIS, hidden=(4,)),
    "squashed": SquashedGaussian(BASIS, LOW, HIGH),
    "squashed, network": SquashedGaussian(BASIS, low=3.0, high=9.0, hidden=[4], floor=0.02),
    "product": Product([Gibbs(BASIS, 3), Beta(BASIS, LOW, HIGH), SquashedGaussian(WAVES)]),
    "product, one basis": Product([Gibbs(BASIS, 3), Beta(BASIS, LOW, HIGH), Gaussian(BASIS)]),
}
LINEAR = [name for name in POLICIES if "network" not in name and "product" not in name]
SHARED_NOISE = [name for name in POLICIES if "beta" not in name and "product" not in name]


@pytest.fixture(params=POLICIES, name="policy")
def every_policy(request):
    return POLICIES[request.param]


def random_params(policy, seed=0):
    return 0.8 * np.random.default_rng(seed).standard_normal(policy.n_params)


def random_obs(shape=(), seed=1):
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (*shape, 2))


def random_actions(policy, params, obs, seed=2):
    noise = policy.draw(np.random.default_rng(seed), obs.shape[:-1])
    return policy.sample(params, obs, noise)


def numbers(policy, params, obs, action):
    """What is the same in NumPy."""
    return (
        policy.log_prob(params, obs, action),
        policy.mode(params, obs),
        policy.entropy(params, obs),
    )


compiled_numbers = jax.jit(numbers)
compiled_features = jax.jit(lambda policy, *point: policy.compatible(*point))


def compiled_score(policy, *point):
    return compiled_features(policy, *point)[: policy.n_params]


def test_the_score_is_the_derivative_of_log_prob(policy):
    params, obs = random_params(policy), random_obs()
    action = random_actions(policy, params, obs)
    step = 1e-5
    numerical = [
        (policy.log_prob(params + d, obs, action) - policy.log_prob(params - d, obs, action))
        / (2 * step)
        for d in step * np.eye(policy.n_params)
    ]
    with jax.enable_x64(True):
        score = compiled_score(policy, params, obs, action)
    np.testing.assert_allclose(score, numerical, rtol=1e-6, atol=1e-7)


def test_scores_have_mean_zero_and_entropy_is_the_mean_of_minus_log_prob(policy):
    params, obs = random_params(policy, 3), random_obs(seed=4)
    actions = random_actions(policy, params, np.tile(obs, (10_000, 1)), seed=5)
    logs = policy.log_prob(params, obs, actions)
    with jax.enable_x64(True):
        score_all = jax.jit(jax.vmap(policy.score, in_axes=(None, None, 0)))
        scores = np.asarray(score_all(params, obs, actions))
    error = scores.std(axis=0) / 100
    assert np.all(np.abs(scores.mean(axis=0)) <= 4 * error + 1e-12)
    assert abs(logs.mean() + policy.entropy(params, obs)) <= 4 * logs.std() / 100


def test_no_sample_is_more_likely_than_the_mode(policy):
    params, obs = random_params(policy, 6), random_obs(seed=7)
    actions = random_actions(policy, params, np.tile(obs, (2000, 1)))
    peak = policy.log_prob(params, obs, policy.mode(params, obs))
    assert np.max(policy.log_prob(params, obs, actions)) <= peak + 1e-12


@pytest.mark.parametrize(("dtype", "rounding"), [("float32", 3e-5), ("float64", 1e-11)])
def test_numpy_and_jax_give_the_same_numbers(policy, dtype, rounding):
    params, obs = random_params(policy, 8).astype(dtype), random_obs(seed=9).astype(dtype)
    action = random_actions(policy, params, obs)
    ours = numbers(policy, params, obs, action)
    with jax.enable_x64(dtype == "float64"):
        theirs = compiled_numbers(policy, params, obs, action)
    for one, other in zip(ours, theirs, strict=True):
        assert isinstance(one, np.ndarray | np.generic)
        assert one.dtype == other.dtype or one.dtype.kind == "i"
        np.testing.assert_allclose(one, other, rtol=rounding, atol=rounding)


@pytest.mark.parametrize("name", SHARED_NOISE)
def test_the_same_noise_gives_the_same_action_in_numpy_and_jax(name):
    policy = POLICIES[name]
    params, obs = random_params(policy, 10), random_obs((50,), 11)
    noise = policy.draw(np.random.default_rng(12), (50,))
    ours = policy.sample(params, obs, noise)
    with jax.enable_x64(True):
        theirs = jax.jit(policy.sample)(params, obs, noise)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    np.testing.assert_array_equal(ours, policy.sample(params, obs, noise))


def test_single_precision_agrees_with_double_precision(policy):
    wide = random_params(policy, 13), random_obs(seed=14)
    narrow = [x.astype(np.float32) for x in wide]
    action = random_actions(policy, *narrow)
    single = compiled_score(policy, *narrow, action), *compiled_numbers(policy, *narrow, action)
    wide = [x.astype(float) for x in (*narrow, action)] if policy.action_shape else [*wide, action]
    with jax.enable_x64(True):
        double = compiled_score(policy, *wide), *compiled_numbers(policy, *wide)
    for one, other in zip(single, double, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-4)


def test_a_batch_is_a_loop(policy):
    params, obs = random_params(policy, 15), random_obs((2, 3), 16)
    noise = policy.draw(np.random.default_rng(17), (2, 3))
    actions = policy.sample(params, obs, noise)
    logs, modes, entropies = numbers(policy, params, obs, actions)
    assert actions.shape == modes.shape == (2, 3, *policy.action_shape)
    for at in np.ndindex(2, 3):
        noise_at = jax.tree.map(lambda x, at=at: x[at], noise)
        np.testing.assert_allclose(actions[at], policy.sample(params, obs[at], noise_at))
        one = numbers(policy, params, obs[at], actions[at])
        for batch, single in zip((logs[at], modes[at], entropies[at]), one, strict=True):
            np.testing.assert_allclose(batch, single, rtol=1e-12)


def test_noise_can_be_drawn_in_bulk(policy):
    def act(key):
        return policy.sample(random_params(policy), random_obs((4, 3)), policy.draw(key, (4, 3)))

    assert jax.eval_shape(act, jax.random.key(20)).shape == (4, 3, *policy.action_shape)
    once, again = (act(np.random.default_rng(20)) for _ in range(2))
    np.testing.assert_array_equal(once, again)
    assert len(np.unique(once, axis=0)) > 1


def test_every_learner_starts_with_its_own_parameters(policy):
    params = jax.jit(jax.vmap(policy.init))(jax.random.split(jax.random.key(21), 3))
    assert params.shape == (3, policy.n_params)
    assert params.dtype == jnp.float32
    alone = policy.init(np.random.default_rng(0))
    assert alone.shape == (policy.n_params,)
    spread = np.std(params, axis=0).max()
    assert spread > 0.1 or np.allclose(params, alone)  # a network's are random, others' are not


def test_the_dtype_of_the_parameters_is_kept(policy):
    def act(params, obs, key):
        action = policy.sample(params, obs, policy.draw(key))
        logs = policy.log_prob(params, obs, action)
        return action, policy.mode(params, obs), logs, policy.compatible(params, obs, action)

    with jax.enable_x64(True):  # where the default would be wider
        params, obs = random_params(policy).astype(np.float32), random_obs()
        shapes = jax.eval_shape(act, params, obs, jax.random.key(22))
    kinds = {jnp.dtype("float32")} | ({jnp.dtype("int64")} if policy.action_shape == () else set())
    assert {x.dtype for x in shapes} == kinds


def test_compatible_features_are_the_score_and_the_baseline(policy):
    params, obs = random_params(policy, 23), random_obs(seed=24)
    action = policy.mode(params, obs)
    with jax.enable_x64(True):
        features = compiled_features(policy, params, obs, action)
        score = jax.eval_shape(policy.score, params, obs, action)
    assert features.shape == (score.size + policy.baseline(obs).size,)
    np.testing.assert_allclose(features[policy.n_params :], policy.baseline(obs), rtol=1e-12)


def test_factors_make_the_derivative_of_the_whole_and_leave_a_policy_that_can_be_pickled(policy):
    params, obs = random_params(policy), random_obs()
    action = random_actions(policy, params, obs)
    with jax.enable_x64(True):
        found = policy.compatible(jnp.asarray(params), obs, action)
        whole, _ = one_factor(policy, jnp.asarray(params), obs, action)
        np.testing.assert_allclose(found, whole, rtol=1e-12, atol=1e-12)
        of_numpy = policy.compatible(params, obs, action)
        np.testing.assert_allclose(of_numpy, whole, rtol=1e-12, atol=1e-12)
    again = pickle.loads(pickle.dumps(policy))
    np.testing.assert_array_equal(again.mode(params, obs), policy.mode(params, obs))


def test_numpy_parameters_serve_jax_observations_and_actions(policy):
    params, obs = random_params(policy), random_obs()
    action = policy.mode(params, obs)
    shape = jax.eval_shape(lambda o, a: policy.log_prob(params, o, a), obs, action)
    assert (shape.shape, shape.dtype) == ((), jnp.float32)
    assert jax.eval_shape(lambda o: policy.mode(params, o), obs).shape == policy.action_shape


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", LINEAR)
def test_extreme_outputs_stay_finite(name, dtype):
    policy = POLICIES[name]
    edges = (
        [np.array(end, dtype) for end in (policy.low, policy.high)]
        if hasattr(policy, "box")
        else []
    )
    obs = random_obs().astype(dtype)
    for outputs in np.random.default_rng(25).choice([-200, -50, 50, 200], (12, policy.n_outputs)):
        params = policy.outputs.constant_weights(outputs).astype(dtype)
        sampled = random_actions(policy, params, np.tile(obs, (3, 1)))
        with jax.enable_x64(dtype == "float64"):
            for action in [*edges, *sampled, policy.mode(params, obs)]:
                values = (
                    *compiled_numbers(policy, params, obs, action),
                    compiled_score(policy, params, obs, action),
                )
                assert all(np.all(np.isfinite(value)) for value in values), (outputs, action)
                ours = numbers(policy, params, obs, action)
                assert all(np.all(np.isfinite(value)) for value in ours), (outputs, action)


@pytest.mark.parametrize("name", LINEAR)
def test_a_start_in_words_needs_a_constant_feature(name):
    policy = POLICIES[name]
    squares = Custom(lambda obs: obs**2, ["x1^2", "x2^2"])
    options = {"n_actions": 3} if name == "gibbs" else {}
    type(policy)(squares, **options)  # all zeros need none
    with pytest.raises(ValueError, match="needs a constant feature, and this basis has none; add"):
        type(policy)(squares, start=1 if name == "gibbs" else 0.3, **options)
