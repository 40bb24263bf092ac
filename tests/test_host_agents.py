"""NAC, RCPO and NRCPO on Python environments."""

import json
import subprocess
import sys
import warnings

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from downside import load, load_policy
from downside.bases.spaces import basis_for
from downside.control import NAC, NRCPO
from downside.policies import Gibbs
from downside.policies.base import one_factor
from downside.signals import Constraint
from downside.store import StoreError
from drift_agents import PERIOD, QUIET, make
from host_environments import Drift, Spaces

WAYS = {
    "batches": {"n_seeds": 2, "num_envs": 3},
    "online": {"way": "online", "critic_step_size": 0.02, "pretraining": 3},
}


@pytest.mark.parametrize("way", WAYS)
def test_save_load_continue_is_learning_at_once(way, tmp_path):
    options = WAYS[way]
    at_once = make(**options).learn(8 * PERIOD, **QUIET)
    make(**options).learn(5 * PERIOD, **QUIET).save(tmp_path / "agent")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = load(tmp_path / "agent", env=Drift)
    assert again.steps == 5 * PERIOD
    again.learn(3 * PERIOD, **QUIET)
    np.testing.assert_array_equal(again.theta, at_once.theta)
    in_folder = make(**options, folder=tmp_path / "run").learn(3 * PERIOD, **QUIET)
    in_folder = make(**options, folder=tmp_path / "run").learn(8 * PERIOD, **QUIET)
    np.testing.assert_array_equal(in_folder.theta, at_once.theta)
    if way == "batches":
        alone = make(num_envs=3).learn(8 * PERIOD, **QUIET)
        np.testing.assert_array_equal(alone.theta[0], at_once.theta[0])


def test_an_interruption_in_the_middle_of_a_period_loses_nothing():
    at_once = make().learn(6 * PERIOD, **QUIET)
    agent = make()
    agent.learn(2 * PERIOD, **QUIET)
    env = agent._hosting.first.env
    step, env.unwrapped.count = env.step, 0

    def fails(action):
        if env.unwrapped.count == 20:
            raise KeyboardInterrupt
        return step(action)

    env.step = fails
    with pytest.raises(KeyboardInterrupt):
        agent.learn(4 * PERIOD, **QUIET)
    env.step = step
    agent.learn(4 * PERIOD, **QUIET)
    assert agent.steps == 6 * PERIOD
    np.testing.assert_array_equal(agent.theta, at_once.theta)


def test_an_environment_that_ignores_its_seed_goes_on_with_a_word(tmp_path):
    dishonest = lambda: Drift(honest=False)  # noqa: E731
    with pytest.warns(UserWarning, match=r"\(in the first observation\); call super\(\)\.reset"):
        agent = make(dishonest)
    agent.learn(3 * PERIOD, **QUIET).save(tmp_path / "agent")
    repeats, draws = (r"same seed and the same", r"did not repeat its episode .* draw all random")
    with pytest.warns(UserWarning, match=repeats), pytest.warns(UserWarning, match=draws):
        again = load(tmp_path / "agent", env=dishonest)
    assert again.learn(2 * PERIOD, **QUIET).steps == 5 * PERIOD
    assert np.all(np.isfinite(again.theta))


@pytest.mark.parametrize("scale", [1e4, 1e-4])
def test_the_units_of_the_reward_do_not_matter(scale):
    # Equal up to rounding: signals are divided by their own size, bounds compared in proportion.
    def theta(scale):
        agent = NRCPO(
            lambda: Drift(scale),
            target=0.5 * scale,
            threshold=0.3 * scale,
            discount=0.95,
            period=PERIOD,
        )
        return agent.learn(6 * PERIOD, **QUIET).theta

    found, expected = theta(scale), theta(1.0)
    assert np.abs(expected).max() > 0.05
    np.testing.assert_allclose(found, expected, atol=2e-3 * np.abs(expected).max())


OBSERVATIONS = [
    spaces.Discrete(5, start=2),
    spaces.Box(-1.0, 2.0, (2,), np.float64),
    spaces.Box(0, 255, (2, 2), np.uint8),
    spaces.MultiDiscrete([[3, 2], [2, 4]]),
    spaces.Tuple([spaces.Discrete(3), spaces.Box(-np.inf, np.inf, (2,))]),
    spaces.Dict({"a": spaces.MultiBinary(2), "b": spaces.Box(0.0, 1.0, (1,))}),
]
ACTIONS = [
    spaces.Discrete(3, start=-1),
    spaces.Box(np.float32([-1.0, 0.0]), np.float32([2.0, 0.5])),
    spaces.Box(-np.inf, np.inf, (1, 2), np.float64),
    spaces.MultiDiscrete([3, 2]),
    spaces.MultiBinary(2),
    spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Tuple([spaces.Box(0.0, 1.0, (2,))])}),
]


@pytest.mark.parametrize(
    ("observations", "actions"), list(zip(OBSERVATIONS, ACTIONS, strict=True)), ids=str
)
def test_any_spaces_get_a_policy_that_learns_and_predicts(observations, actions, tmp_path):
    agent = NAC(lambda: Spaces(observations, actions), period=PERIOD).learn(2 * PERIOD, **QUIET)
    assert np.any(agent.theta != NAC(lambda: Spaces(observations, actions)).theta)
    several = [observations.sample() for _ in range(4)]
    one, state = agent.predict(several[0], state=3, deterministic=True)
    assert actions.contains(one)
    assert state == 3
    batch = stacked(several)
    many, _ = agent.predict(batch, deterministic=True)
    for found, expected in zip(leaves(many), leaves(one), strict=True):
        np.testing.assert_allclose(found[0], expected, rtol=1e-5)
    agent.to_numpy().save(tmp_path / "policy.json")
    exported = load_policy(tmp_path / "policy.json").predict(batch, deterministic=True)
    for found, expected in zip(leaves(exported), leaves(many), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("observations", OBSERVATIONS, ids=str)
def test_features_have_their_factors_whatever_an_observation_is_made_of(observations):
    policy = Gibbs(basis_for(observations), 3)
    theta = jnp.asarray(np.random.default_rng(2).normal(size=policy.n_params)) * 1e-5
    observations.seed(5)
    obs = observations.sample()
    whole, _ = one_factor(policy, theta, obs, jnp.asarray(1))
    compatible = jax.jit(policy.compatible)
    np.testing.assert_allclose(compatible(theta, obs, jnp.asarray(1)), whole, rtol=1e-4, atol=1e-5)


def stacked(values):
    if isinstance(values[0], dict):
        return {key: stacked([value[key] for value in values]) for key in values[0]}
    if isinstance(values[0], tuple):
        return tuple(stacked(part) for part in zip(*values, strict=True))
    return np.stack(values)


def leaves(value):
    if isinstance(value, dict | tuple):
        parts = value.values() if isinstance(value, dict) else value
        return [leaf for part in parts for leaf in leaves(part)]
    return [np.asarray(value)]


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    path = tmp_path_factory.mktemp("agents") / "lake"
    options = {"env_options": {"is_slippery": False}, "period": PERIOD}
    agent = NRCPO("FrozenLake-v1", target=1.0, threshold=0.5, **options)
    agent.learn(2 * PERIOD, **QUIET).save(path)
    return path, agent


def test_an_environment_by_its_id_needs_nothing_to_load(lake):
    path, agent = lake
    again = load(path)
    assert again._hosting.named == agent._hosting.named
    assert again.env.horizon == 100
    assert again.predict(0, deterministic=True)[0] == agent.predict(0, deterministic=True)[0]


def test_an_environment_with_other_spaces_is_not_taken_for_the_one_of_the_training(tmp_path):
    four, two = spaces.Discrete(4), spaces.Dict(a=spaces.Discrete(2), b=spaces.Box(0.0, 1.0, (1,)))
    make = lambda: Spaces(two, four)  # noqa: E731
    NAC(make, period=PERIOD).learn(PERIOD, **QUIET).save(tmp_path / "agent")
    assert load(tmp_path / "agent", env=make).steps == PERIOD
    others = [
        Spaces(spaces.Dict(a=spaces.Discrete(3), b=spaces.Box(0.0, 1.0, (1,))), four),
        Spaces(two, spaces.Discrete(4, start=1)),
        Spaces(spaces.Discrete(4), four),
    ]
    for other in others:
        with pytest.raises(StoreError, match="had other spaces; give env= and its arguments"):
            load(tmp_path / "agent", env=other)


def test_what_was_code_is_asked_for(tmp_path):
    bound = Constraint(lambda transition: 0.1 * transition.obs[0], 0.3)
    agent = NRCPO(Drift, constraints=[bound], discount=0.95, period=PERIOD)
    agent.learn(PERIOD, **QUIET).save(tmp_path / "agent")
    with pytest.raises(StoreError, match=r"its bounds was code.*load\(path, bounds=\.\.\.\)"):
        load(tmp_path / "agent", env=Drift)
    again = load(tmp_path / "agent", env=Drift, bounds=[(bound,)])
    np.testing.assert_array_equal(again.theta, agent.theta)
    with pytest.raises(StoreError, match=r"Drift, which is code and not stored.*env=\.\.\."):
        load(tmp_path / "agent", bounds=[(bound,)])


def test_files_that_are_not_what_they_seem_are_refused_in_a_sentence(lake, tmp_path):
    import shutil

    path, agent = lake
    for name in ("state.npz", "manifest.json"):
        shutil.copytree(path, tmp_path / name)
        (file,) = (tmp_path / name).glob(f"checkpoints/*/{name}")
        file.write_bytes(file.read_bytes()[:-30])
        with pytest.raises(StoreError, match="damaged"):
            load(tmp_path / name)
    for key, value in {"policy": {"type": "Popen"}, "way": 3, "bounds": 7, "n_seeds": -1}.items():
        agent._recipe, good = {**agent._recipe, key: value}, agent._recipe
        agent.save(tmp_path / f"hostile {key}")
        agent._recipe = good
        with pytest.raises(StoreError, match="cannot be loaded: it is intact, but"):
            load(tmp_path / f"hostile {key}")
    agent._recipe, good = None, agent._recipe
    agent.save(tmp_path / "old")
    agent._recipe = good
    with pytest.raises(StoreError, match="written by an earlier version"):
        load(tmp_path / "old")


def test_an_exported_policy_acts_where_jax_is_not_installed(lake, tmp_path):
    _, agent = lake
    agent.to_numpy().save(tmp_path / "policy.json")
    document = json.loads((tmp_path / "policy.json").read_text())
    assert document["weights"]["output 1"]["state 3"] == pytest.approx(agent.theta[0, 16 + 3])
    script = """
import sys
sys.modules["jax"] = sys.modules["jaxlib"] = None
from downside.export import load_policy
import numpy as np
policy = load_policy(sys.argv[1])
print([int(policy.predict(s, deterministic=True)) for s in range(16)])
print(policy.predict(np.arange(16), rng=np.random.default_rng(5)).tolist())
assert "gymnasium" not in sys.modules
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "policy.json")],
        capture_output=True,
        text=True,
        check=True,
    )
    modes, draws = map(json.loads, done.stdout.splitlines())
    assert modes == [int(agent.predict(s, deterministic=True)[0]) for s in range(16)]
    expected = agent.to_numpy().predict(np.arange(16), rng=np.random.default_rng(5))
    assert draws == expected.tolist()
    for junk in (
        "[]",
        "{",
        json.dumps({**document, "schema": 9}),
        json.dumps({**document, "theta": 1}),
    ):
        (tmp_path / "junk.json").write_text(junk)
        with pytest.raises(ValueError, match=r"junk\.json cannot be read"):
            load_policy(tmp_path / "junk.json")


@pytest.mark.parametrize(
    "observations",
    [
        spaces.Dict(a=spaces.Box(-np.inf, np.inf, (2, 1)), b=spaces.Discrete(3, start=2)),
        spaces.Tuple([spaces.MultiDiscrete([[2, 3], [4, 2]]), spaces.MultiBinary(2)]),
        spaces.Box(np.float32([-1.0, 3.0]), np.float32([2.0, 9.0])),
        spaces.MultiDiscrete([3, 2], start=[1, 5]),
    ],
    ids=str,
)
def test_an_exported_policy_says_what_its_inputs_are(observations, tmp_path):
    agent = NAC(lambda: Spaces(observations, spaces.Box(0, 9, (2,), np.int64)), period=PERIOD)
    agent.to_numpy().save(tmp_path / "policy.json")
    document = json.loads((tmp_path / "policy.json").read_text())
    obs = observations.sample()
    basis = agent.policy.basis
    features = dict(zip(basis.names, np.asarray(basis(obs)).tolist(), strict=True))
    known = {"obs": obs, "clip": np.clip}
    for name, words in document["inputs"].items():
        found = float(eval(words, {}, known))
        told = np.arccos(features[f"cos(pi {name})"]) / np.pi if "cos(0)" in features else None
        assert found == pytest.approx(features[name] if told is None else told, rel=1e-5, abs=1e-5)
    act = load_policy(tmp_path / "policy.json").predict(obs)
    assert agent.action_space.contains(act)  # whole numbers are whole


def evaluate_policy(model, env, n_eval_episodes, deterministic=True):
    """Stable-Baselines3's, for one environment in a batch of one."""
    returns = []
    for episode in range(n_eval_episodes):
        observation = env.reset(seed=episode)[0][None]
        states, starts, total, over = None, np.ones((1,), bool), 0.0, False
        while not over:
            actions, states = model.predict(
                observation, state=states, episode_start=starts, deterministic=deterministic
            )
            obs, reward, terminated, truncated, _ = env.step(actions[0])
            observation, total, over = obs[None], total + reward, terminated or truncated
            starts[:] = over
        returns.append(total)
    return np.mean(returns), np.std(returns)


@pytest.mark.slow
def test_cart_pole_is_learnt_and_judged_as_others_judge():
    agent = NAC("CartPole-v1", seed=5).learn(40_000, **QUIET)
    mean, _ = evaluate_policy(agent, gymnasium.make("CartPole-v1"), 5)
    assert mean > 400.0
    (numbers,) = agent.evaluate(5)
    assert numbers.mean.value > 300.0
    assert numbers.cut == 0.0  # the time limit is the problem's own end
