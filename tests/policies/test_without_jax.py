"""A trained policy acts where JAX is not installed, with the numbers that JAX gives."""

import json
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from downside.bases import Concatenation, Fourier, OneHot, Polynomial, Radial, TileCoding
from downside.policies import Beta, Gaussian, Gibbs, Product, SquashedGaussian

BASIS = Polynomial(2, order=2)
BOX = {"low": (-1.0, -1.0), "high": (1.0, 2.0)}
POLICIES = [
    Gibbs(BASIS, 4),
    Gibbs(OneHot(5), 3, start=2),
    Gaussian(Fourier(**BOX, order=2), size=2, floor=0.1),
    Beta(Radial(**BOX, n_centres=3), low=(-1.0, 0.0), high=(2.0, 0.5)),
    Beta(TileCoding(**BOX, n_tiles=2, n_tilings=4), parameters="mean"),
    SquashedGaussian(Concatenation([BASIS, Fourier(**BOX, order=1)]), low=-3.0, high=1.0),
    Product([Gibbs(BASIS, 3), SquashedGaussian(BASIS), Beta(BASIS)]),
    Gibbs(BASIS, 4, hidden=(6,)),
]

SCRIPT = """
import json, sys
sys.modules["jax"] = sys.modules["jaxlib"] = None  # importing them raises ImportError
from math import inf
import numpy as np
from downside.bases import *
from downside.policies import *

answers = []
for text, params, obs in json.load(sys.stdin):
    policy = eval(text)
    params, obs = np.array(params), np.array(obs)
    noise = policy.draw(np.random.default_rng(3), obs.shape[:1])
    action = policy.sample(params, obs, noise)
    answer = {
        "sample": action,
        "log_prob": policy.log_prob(params, obs, action),
        "mode": policy.mode(params, obs),
        "entropy": policy.entropy(params, obs),
    }
    if isinstance(policy, Gibbs):
        answer["probabilities"] = policy.probabilities(params, obs)
        answer["masked"] = policy.probabilities(params, obs, np.arange(policy.n_actions) != 1)
    assert policy.init(np.random.default_rng(0)).shape == params.shape
    answers.append({name: value.tolist() for name, value in answer.items()})
assert not [name for name in sys.modules if name.startswith(("jax.", "jaxlib.", "jaxtyping"))]
print(json.dumps(answers))
"""


def point(policy):
    rng = np.random.default_rng(1)
    params = 0.7 * rng.standard_normal(policy.n_params)
    obs = np.arange(5) if "OneHot" in repr(policy) else rng.uniform(-1.2, 1.2, (5, 2))
    return params, obs


@pytest.fixture(scope="module")
def answers():
    questions = [(repr(p), *(x.tolist() for x in point(p))) for p in POLICIES]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT],
        input=json.dumps(questions),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@jax.jit
def with_jax(policy, params, obs, action, noise):
    answer = {
        "log_prob": policy.log_prob(params, obs, action),
        "mode": policy.mode(params, obs),
        "entropy": policy.entropy(params, obs),
    }
    if "Beta" not in repr(policy):  # its noise is a key under JAX
        answer["sample"] = policy.sample(params, obs, noise)
    if isinstance(policy, Gibbs):
        answer["probabilities"] = policy.probabilities(params, obs)
        answer["masked"] = policy.probabilities(params, obs, jnp.arange(policy.n_actions) != 1)
    return answer


@pytest.mark.parametrize("index", range(len(POLICIES)), ids=lambda i: type(POLICIES[i]).__name__)
def test_it_acts_as_with_jax(answers, index):
    policy, answer = POLICIES[index], answers[index]
    params, obs = point(policy)
    noise = policy.draw(np.random.default_rng(3), obs.shape[:1])
    with jax.enable_x64(True):
        expected = with_jax(policy, params, obs, np.array(answer["sample"]), noise)
    for name, value in expected.items():
        np.testing.assert_allclose(answer[name], value, rtol=1e-9, atol=1e-12, err_msg=name)
