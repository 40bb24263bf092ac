import gymnasium
import numpy as np
import polars as pl
import pytest
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv

from downside.control import NRCPO
from downside.evaluation import Evaluation, Evaluations, compare
from downside.frontiers import Frontier, frontier
from downside.report.risk_pictures import plot_training
from roads import two_roads

ROADS = two_roads()  # with a bound nu in [0, 1] the best mean is 1 + nu / 2


@pytest.fixture(scope="module")
def found():
    return frontier(
        ROADS,
        target=1.0,
        thresholds=[0.8, 0.2, 0.5],
        n_seeds=3,
        total_timesteps=150_000,
        n_eval_episodes=4000,
        progress_bar=False,
    )


def test_the_frontier_is_the_known_one(found):
    # The policy swings about its bound by up to a fifth (docs/control.md).
    summary = found.summary()
    assert summary["threshold"].to_list() == [0.2, 0.5, 0.8]
    np.testing.assert_allclose(summary["risk"], [0.2, 0.5, 0.8], atol=0.12)
    frame = found.to_frame()
    # every policy lies on the line, up to 4 standard errors of its mean minus half its risk
    gap = frame["mean"] - 1.0 - frame["risk"] / 2.0
    assert np.all(np.abs(gap.to_numpy()) < 4.0 * 2.5 / np.sqrt(4000))
    assert summary["mean"].is_sorted()


def test_rows_are_thresholds_and_seeds_and_can_be_written(found, tmp_path):
    frame = found.to_frame()
    assert frame.shape[0] == 9
    assert frame["seed"].to_list() == [0, 1, 2] * 3
    assert {"mean_low", "proxy_high", "cvar", "lpm1", "holds"} <= set(frame.columns)
    frame.write_parquet(tmp_path / "frontier.parquet")
    assert pl.read_parquet(tmp_path / "frontier.parquet").equals(frame)
    held = frame.filter(pl.col("threshold") == 0.5)["holds"].sum()
    assert found.summary()["n_hold"].to_list()[1] == held
    assert f"{held} of 3" in str(found)


def test_policies_act_with_numpy(found):
    policy = found.policies[2][1]
    assert (policy.threshold, policy.seed) == (0.8, 1)
    np.testing.assert_array_equal(policy.theta, found.agent.theta[7])
    rng = np.random.default_rng(3)
    drawn = np.mean([policy.act(np.asarray(0), rng) for _ in range(2000)])
    # the probability of the risky road is the risk itself
    assert abs(drawn - found.to_frame()["risk"][7]) < 4.0 * 2.0 * np.sqrt(0.25 / 2000)
    assert policy.act(np.asarray(0), deterministic=True) in (0, 1)


def test_pictures_are_drawn_from_the_results(found, tmp_path):
    found.plot(tmp_path / "frontier.png")
    figure = plot_training(found.agent, tmp_path / "training.png")
    titles = [axes.get_title() for axes in figure.axes]
    assert titles[1:] == ["risk, and its bound (dashed)", "multiplier"]
    assert (tmp_path / "frontier.png").stat().st_size > 10_000
    with pytest.raises(ValueError, match=r"call agent\.learn"):
        plot_training(NRCPO(ROADS, target=1.0, threshold=0.5))


def test_thresholds_are_found_from_a_run_without_a_bound():
    made = frontier(
        ROADS,
        target=1.0,
        n_seeds=1,
        total_timesteps=10_000,
        n_eval_episodes=1000,
        progress_bar=False,
    )
    # without a bound the risky road is preferred, whose risk is 1, to that of either by chance, 0.5
    assert len(made.thresholds) == 11
    assert made.thresholds[0] == 0.0
    assert 0.5 < made.thresholds[-1] < 1.1
    assert "the risk of a run without a bound" in str(made)


class Roads(gymnasium.Env):
    """The same choice in Python."""

    observation_space, action_space = spaces.Discrete(1), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        risky = 4.0 if self.np_random.random() < 0.5 else -1.0
        return 0, risky if action else 1.0, True, False, {}


def test_the_frontier_of_a_function_that_makes_a_vector_environment():
    # Every threshold and seed has five copies of the choice, wherever they come from.
    several = lambda: SyncVectorEnv([Roads] * 5)  # noqa: E731
    options = {"thresholds": [0.2, 0.7], "n_seeds": 2, "horizon": 1, "period": 50}
    options |= {"total_timesteps": 500, "n_eval_episodes": 40, "progress_bar": False}
    vector = frontier(several, target=1.0, **options)
    copies = frontier(Roads, target=1.0, num_envs=5, **options)
    np.testing.assert_array_equal(vector.agent.theta, copies.agent.theta)
    assert vector.to_frame().equals(copies.to_frame())
    frame = vector.to_frame()
    assert frame["threshold"].to_list() == [0.2, 0.2, 0.7, 0.7]
    risky = [
        float(np.exp(vector.agent.policy.log_prob(theta, 0, 1))) for theta in vector.agent.theta
    ]
    # 4 standard errors: a shortfall of 2 with the probability p / 2
    errors = np.sqrt(np.array([4.0 * p / 2.0 - p**2 for p in risky]) / 40)
    assert np.all(np.abs(frame["risk"].to_numpy() - risky) <= 4.0 * errors)


class NumberedRoads(Roads):
    """Its two actions are called 5 and 6."""

    action_space = spaces.Discrete(2, start=5)

    def step(self, action):
        assert self.action_space.contains(action)
        return super().step(action - 5)


def test_the_frontier_of_a_python_environment_is_judged_in_its_own_time_and_words():
    options = {"n_seeds": 1, "horizon": 1, "period": 50, "total_timesteps": 500}
    made = frontier(NumberedRoads, target=1.0, thresholds=[0.2], progress_bar=False, **options)
    assert made.evaluations[0].n_episodes == 100  # as agent.evaluate does, and not 10,000
    (policy,) = made.policies[0]
    acts = [policy.act(0, np.random.default_rng(i)) for i in range(40)]
    assert set(acts) == {5, 6}
    assert all(np.shape(act) == () for act in acts)
    assert policy.act(0, deterministic=True) == made.agent.predict(0, deterministic=True)[0]
    found = made.agent.evaluate(30)
    assert compare(made.agent, made.agent).results[0][0].n_episodes == 100
    assert compare(found, made.agent).results[1][0].n_episodes == 30
    figure = plot_training(made.agent)
    assert figure.axes[0].get_title() == "mean return of training episodes"


def made_up(means, risks, thresholds, spread=0.01):
    """A frontier of policies with these means and risks, on the same luck, two seeds each.

    Seeds are ``spread`` above and below the mean, in turns.
    """
    rng = np.random.default_rng(0)
    luck = rng.normal(size=500)
    results = [
        Evaluation.of_episodes(
            mean + sign * spread + 0.1 * luck,
            target=0.0,
            signals=np.full(500, risk) + 1e-3 * luck,
            targets=np.zeros(500),
            threshold=nu,
        )
        for i, (mean, risk, nu) in enumerate(zip(means, risks, thresholds, strict=True))
        for sign in ((-1.0, 1.0) if i % 2 else (1.0, -1.0))
    ]
    agent = NRCPO(ROADS, target=1.0, threshold=list(thresholds), n_seeds=2)
    return Frontier(tuple(thresholds), Evaluations(tuple(results), 2), agent, "made up")


def test_dominated_and_infeasible_thresholds_are_marked(tmp_path):
    made = made_up([1.0, 3.0, 2.0], [0.2, 0.3, 0.4], [0.1, 0.35, 0.5])
    assert made.dominated.tolist() == [False, False, True]
    assert made.feasible.tolist() == [False, True, True]
    text = str(made)
    assert "dominated" in text
    assert "no policy found" in text
    figure = made.plot(tmp_path / "made_up.png")
    words = [t.get_text() for axes in figure.axes for t in axes.get_legend().get_texts()]
    assert {"dominated", "no policy found", "no policy found that holds"} <= set(words)


def test_what_differs_by_less_than_its_interval_is_not_dominated():
    bounds = [0.3, 0.35, 0.5]
    close = made_up([1.0, 1.1, 2.0], [0.2, 0.1, 0.4], bounds, spread=0.5)
    assert not close.dominated.any()
    apart = made_up([1.0, 1.1, 2.0], [0.2, 0.1, 0.4], bounds, spread=0.001)
    assert apart.dominated.tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({"thresholds": []}, "one or more finite numbers"),
        ({"thresholds": [0.1, np.inf]}, "one or more finite numbers"),
        ({"n_seeds": 0}, "n_seeds is 0"),
        ({"n_eval_episodes": 1}, "n_eval_episodes is 1"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(options, advice):
    with pytest.raises(ValueError, match=advice):
        frontier(ROADS, target=1.0, **options)
