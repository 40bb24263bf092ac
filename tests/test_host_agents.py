"""NAC, RCPO and NRCPO on Python environments."""

import json
import subprocess
import sys
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from downside import defaults, load, load_policy
from downside.bases import Polynomial
from downside.control import NAC, NRCPO
from downside.environments.gymnasium import GymnasiumEnv
from downside.policies import Gibbs
from downside.signals import Centralised, Constraint
from downside.store import StoreError
from downside.studies.training import learner_rows
from downside.training import hosting
from downside.training.mean_reward import default_model
from host_environments import Drift, Endless, Spaces
from roads import two_roads

QUIET = {"progress_bar": False}
PERIOD = 60


def make(env=Drift, **options):
    return NRCPO(env, target=0.5, threshold=0.3, discount=0.95, period=PERIOD, **options)


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


BROKEN = {
    "NaN reward": (lambda o, r, d, t, i: (o, np.nan, d, t, i), "reward at step .* is nan"),
    "reward an array": (lambda o, r, d, t, i: (o, np.ones(2), d, t, i), "reward at step"),
    "infinite reward": (lambda o, r, d, t, i: (o, np.float32(np.inf), d, t, i), "reward at step"),
    "four values": (lambda o, r, d, t, i: (o, r, d, i), "step returned 4 values"),
    "NaN": (lambda o, r, d, t, i: (o * np.nan, r, d, t, i), "must hold numbers, not NaN"),
    "shape": (lambda o, r, d, t, i: (o[:1], r, d, t, i), r"shape \(1,\).*has \(2,\)"),
    "type": (lambda o, r, d, t, i: (o.astype(complex), r, d, t, i), "type complex128"),
    "infinity": (
        lambda o, r, d, t, i: (np.full_like(o, np.inf), r, d, t, i),
        "must hold numbers, .*not infinity",
    ),
    "ragged": (lambda o, r, d, t, i: ([1.0, [2.0]], r, d, t, i), "observation at .* type object"),
    "a word for a flag": (lambda o, r, d, t, i: (o, r, "no", t, i), "terminated .* True or False"),
    "flag an array": (lambda o, r, d, t, i: (o, r, d, np.ones(2), i), "truncated .* True or False"),
    "NaN as a mean": (
        lambda o, r, d, t, i: (o, r, d, t, {"mean_reward": np.nan}),
        r"info\['mean_reward'\] at step .* is nan",
    ),
    "info None": (lambda o, r, d, t, i: (o, r, d, t, None), "info at step .* a dictionary"),
    "beyond float32": (lambda o, r, d, t, i: (o, 2e16, d, t, i), r"up to 2e\+16.*float64"),
    "no reward": (lambda o, r, d, t, i: (o, None, d, t, i), "reward at step .* is None"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_environment_is_named_before_anything_is_learnt_from_it(fault):
    result, words = BROKEN[fault]
    agent = make(lambda: Drift(result=result), policy=Gibbs(Polynomial(2), 2))
    before = agent.theta
    with pytest.raises(ValueError, match=words):
        agent.learn(PERIOD, **QUIET)
    np.testing.assert_array_equal(agent.theta, before)
    assert agent.steps == 0


class Narrow(Drift):
    def __init__(self):
        super().__init__()
        self.observation_space = spaces.Dict({"x": spaces.Box(-0.5, 0.5, (2,))})

    def _obs(self):
        return {"x": super()._obs()}


def test_observations_outside_their_space_are_named_once():
    agent = make(Narrow)
    with pytest.warns(UserWarning, match=r"outside their Box, by up to \d.*declare wider") as said:
        agent.learn(3 * PERIOD, **QUIET)
    assert len(said) == 1
    assert np.all(np.isfinite(agent.theta))


def test_a_slow_environment_is_told_what_it_costs(monkeypatch):
    monkeypatch.setattr(defaults, "LONG_SECONDS", 0.0)
    with pytest.warns(UserWarning, match=r"seconds for a step.*1,000 steps.*give basis="):
        make()


class Unseeded(Drift):
    def reset(self):
        return super().reset()


class Cut(Drift):
    def step(self, action):
        return (*super().step(action)[:2], False, self.time >= 12, {})


def test_sums_without_an_end_are_refused(monkeypatch):
    monkeypatch.setattr(hosting, "PATIENCE", 2 * PERIOD)
    with pytest.raises(ValueError, match=r"no episode has ended in 120 steps.*TimeLimit"):
        NAC(Endless, period=PERIOD).learn(3 * PERIOD, **QUIET)
    with pytest.raises(ValueError, match=r"cut short after 12 steps.*give horizon="):
        NAC(Cut, period=PERIOD).learn(PERIOD, **QUIET)


PICTURES, TWO = spaces.Box(0, 255, (84, 84, 3), np.uint8), spaces.Discrete(2)


ONE = Drift()


def jumping(transition):
    return 1.0 if transition.reward > 0 else 0.0


class OnStep:
    def on_step(self):
        return True


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        (lambda: NRCPO("MlpPolicy", "CartPole-v1"), "environment comes first"),
        (lambda: NAC(Drift(), n_seeds=2), r"lambda: MyEnv\(\)"),
        (lambda: NAC(lambda: ONE, n_seeds=2), "gives one and the same each time"),
        (lambda: NAC(Drift, num_envs=7), "give period=2002"),
        (lambda: NAC(Drift, num_envs=2, way="online"), "follows one stream"),
        (lambda: NAC(Drift, policy="cnn"), "'linear', 'mlp'"),
        (lambda: NAC(Drift).learn(10, callback=OnStep()), "callback=lambda record"),
        (lambda: NAC(Drift).suggest_threshold(), "give the target"),
        (lambda: NAC(Drift(), env_options={"a": 1}), "made already"),
        (lambda: NAC(Drift, gamma=0.9), "gamma= is of Stable-Baselines3; here it is discount="),
        (
            lambda: NRCPO(Drift, target=jumping, threshold=0.3, discount=0.9).learn(9, **QUIET),
            r"a function of yours .* jnp\.where in the place of if",
        ),
        (lambda: NAC(3), "give a Gymnasium id"),
        (lambda: NAC(lambda: Spaces(PICTURES, TWO)), "21,169 features .* ResizeObservation"),
        (lambda: NAC(Unseeded), r"signature reset\(self, \*, seed=None"),
    ],
)
def test_bad_input_and_habits_from_elsewhere_are_answered(call, advice):
    with pytest.raises(ValueError, match=advice):
        call()


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


ROADS = two_roads()  # about the mean rewards the proxy is 1.25 times the probability of the second


class SilentRoads(gymnasium.Env):
    """The same in Python, and nothing is told beside the reward."""

    observation_space = spaces.Discrete(1)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        reward = self.np_random.choice([4.0, -1.0]) if action == 1 else 1.0
        return 0, float(reward), True, False, {}


def test_mean_rewards_that_are_not_told_are_learnt_for_training_and_evaluation_alike():
    options = {"target": Centralised(), "threshold": 0.6, "horizon": 1, "period": 500}
    model = default_model(spaces.Discrete(1), spaces.Discrete(2), None, rate=1e-3)
    for rate, given in ((1e-2, {}), (1e-3, {"mean_reward": model})):  # the default is a hundredth
        agent = NRCPO(SilentRoads, **options, **given).learn(20_000, **QUIET)
        n = 2000
        found = agent.evaluate(n)
        (risky,) = risky_roads(agent)
        # The learnt mean of the second road is off by 2.5 sqrt(rate / 2), half of which counts;
        # 4 standard errors, with those of the episodes.
        error = risky * 1.25 * np.sqrt(rate / 2.0) + 1.25 / np.sqrt(n)
        assert abs(found[0].proxy.value - 1.25 * risky) < 4.0 * error
        assert found[0].bounds[0].value == found[0].proxy.value
        assert "mean rewards are those that training learnt" in str(found[0])
        (row,) = learner_rows(agent, {"n_eval_episodes": n, "settings": {}})
        assert row["risk"] == found[0].proxy.value
        assert row["meets"] == (row["risk"] <= 0.6)
        assert agent.suggest_threshold(n_eval_episodes=n) == 0.5 * row["risk"]
    told = NRCPO(lambda: GymnasiumEnv(ROADS), **options).evaluate(100)[0]
    assert not told.learnt_means
    assert set(told.episodes.signals) <= {0.0, 2.5}


class Certain(Drift):
    """Whoever drifts, each step pays 1: there is no luck in a reward."""

    def step(self, action):
        obs, _, over, cut, info = super().step(action)
        return obs, 1.0, over, cut, info


def test_what_the_learnt_mean_rewards_add_to_the_risk_is_said():
    options = {"target": Centralised(), "threshold": 0.5, "discount": 0.95, "period": 500}
    said = "all of this risk is their error"
    agent = NRCPO(Certain, **options)
    assert said in agent.learn(1000, **QUIET).summary()
    assert "their error" not in NRCPO(SilentRoads, **options).learn(5000, **QUIET).summary()


def risky_roads(agent):
    """The probability of the second road, of each learner."""
    return [float(np.exp(agent.policy.log_prob(theta, 0, 1))) for theta in agent.theta]


def test_without_a_bound_there_is_no_risk_about_mean_rewards_that_nobody_tells():
    agent = NAC(SilentRoads, horizon=1, period=100).learn(100, **QUIET)
    with pytest.raises(ValueError, match=r"ds\.NRCPO\(env, target=\.\.\., threshold=math\.inf"):
        agent.suggest_threshold(Centralised())


@pytest.mark.parametrize("way", ["batches", "online"])
def test_a_learnt_mean_reward_is_saved_with_the_agent(way, tmp_path):
    step = {"critic_step_size": 0.02} if way == "online" else {}
    options = {"target": Centralised(), "threshold": 0.3, "discount": 0.95, "period": PERIOD}
    agent = NRCPO(Drift, way=way, **options, **step).learn(2 * PERIOD, **QUIET)
    agent.save(tmp_path / "agent")
    again = load(tmp_path / "agent", env=Drift)
    first, second = (one.evaluate(20)[0].proxy.value for one in (agent, again))
    assert first == second > 0.0


@pytest.mark.parametrize(
    "actions", [spaces.Box(-1.0, 1.0, (2,)), spaces.Dict(a=spaces.Discrete(3), b=spaces.Box(0, 1))]
)
def test_mean_rewards_are_learnt_for_actions_of_any_kind(actions):
    make = lambda: Spaces(spaces.Box(-1.0, 1.0, (2,)), actions)  # noqa: E731
    agent = NRCPO(make, target=Centralised(), threshold=0.1, discount=0.9, period=PERIOD)
    assert np.isfinite(agent.learn(PERIOD, **QUIET).evaluate(10)[0].proxy.value)
