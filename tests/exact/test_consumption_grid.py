import numpy as np
import pytest
from scipy.optimize import linprog

from downside.environments import Consumption
from downside.exact import consumption as exact
from downside.exact.consumption_grid import optima

CALM = Consumption(
    horizon=6,
    default_probability=0.08,
    time_step=0.2,
    volatility=0.0,
    initial_wealth=1.7,
    discount=0.995,
    ruin_wealth=0.0,
    target="capital",
)


def best_without_noise(env, nu):
    """Without volatility the path until a default is one, and the best plan a linear programme.

    Columns: consumed, risky, liquid, shortfall of the step, shortfall of a default; T of each.
    """
    n, p, g = env.horizon, float(env.default_probability), float(env.discount)
    start = float(env.initial_wealth)
    step = float(env.time_step)
    risky, liquid = 1.0 + float(env.drift) * step, 1.0 + float(env.liquid_drift) * step
    alive = ((1 - p) * g) ** np.arange(n)
    none, eye = np.zeros((n, n)), np.eye(n)
    mean = np.concatenate([alive, np.zeros(n), p * alive, np.zeros(2 * n)])
    risk = np.concatenate([np.zeros(3 * n), (1 - p) * alive, p * alive])
    target = start / n
    short = np.hstack([-eye, none, none, -eye, none])
    at_default = np.hstack([-eye, none, -eye, none, -eye])
    before = np.eye(n, k=-1)
    budget = np.hstack([eye, eye - risky * before, eye - liquid * before, none, none])
    found = linprog(
        -mean,
        A_ub=np.vstack([risk, short, at_default]),
        b_ub=np.concatenate([[nu], np.full(n, -target), -target * (n - np.arange(n))]),
        A_eq=budget,
        b_eq=np.concatenate([[start], np.zeros(n - 1)]),
    )
    return -found.fun, found.ineqlin.marginals[0]


@pytest.mark.parametrize("nu", [0.02, 0.06, 0.13, 0.4])
def test_without_noise_it_is_a_linear_programme(nu):
    [found] = optima(CALM, [nu], n_wealths=800)
    mean, slope = best_without_noise(CALM, nu)
    assert found.mean == pytest.approx(mean, abs=1.5e-3)  # 41 shares; 1e-4 with 641
    assert found.mean <= mean + 1e-5 * (1 - slope)  # interpolation of a concave value: from below
    assert found.risk <= nu + 1e-12


def test_where_the_target_grows_with_the_wealth_it_is_the_closed_form():
    env = Consumption(horizon=40, time_step=0.025, default_probability=0.0075)
    thresholds = [0.05, 0.2]
    for nu, found in zip(thresholds, optima(env, thresholds, n_wealths=100), strict=True):
        best = exact.optimum(env, nu)
        assert found.mean == pytest.approx(best.mean, abs=2e-5)  # one plan more would gain 1e-5
        assert found.multiplier == pytest.approx(best.multiplier, rel=0.05)


def test_a_bound_that_does_not_bind_leaves_the_best_mean():
    env = Consumption(horizon=12, time_step=0.08, default_probability=0.02, target="capital")
    [found] = optima(env, [50.0], n_wealths=100)
    free = exact.optimum(Consumption(horizon=12, time_step=0.08, default_probability=0.02), 50.0)
    assert found.mean == pytest.approx(free.mean, rel=1e-9)
    assert found.multiplier == 0.0


def test_a_bound_below_what_can_be_met_is_refused_with_the_least():
    env = Consumption(horizon=12, time_step=0.08, default_probability=0.02, target="capital")
    with pytest.raises(ValueError, match="it must be at least that"):
        optima(env, [-0.1], n_wealths=60)


def test_a_liquid_asset_that_loses_value_is_refused():
    env = Consumption(horizon=12, discount=0.9, target="capital")
    with pytest.raises(ValueError, match="must make up for the discount"):
        optima(env, [0.1], n_wealths=20)


def test_the_printed_targets_are_left_to_the_closed_form():
    with pytest.raises(ValueError, match=r"downside\.exact\.consumption\.optimum"):
        optima(Consumption(target="printed-time"), [0.1], n_wealths=20)
