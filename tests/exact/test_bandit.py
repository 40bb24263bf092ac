import numpy as np
import pytest
from scipy import integrate, stats

from downside.environments import Bandit
from downside.exact.bandit import (
    bandit_arm_lpms,
    bandit_arm_means,
    bandit_lpm,
    bandit_mean,
    bandit_proxy,
)

OTHER = Bandit(mean_a=-0.5, std_a=0.7, mean_b=2.2, std_b=3.1, pareto_scale=0.8, pareto_shape=2.6)
OTHER_ARMS = [stats.norm(-0.5, 0.7), stats.norm(2.2, 3.1), stats.pareto(2.6, scale=0.8)]
MIX = np.array([0.2, 0.3, 0.5])


def test_known_table_of_the_arms():
    assert bandit_arm_means(Bandit()) == pytest.approx([1.0, 4.0, 3.0])
    assert bandit_arm_lpms(Bandit()) == pytest.approx([0.39894, 2.39365, 2 / np.sqrt(3)], abs=5e-6)
    assert bandit_arm_lpms(Bandit(), order=2) == pytest.approx([0.5, 18.0, 8 * np.sqrt(3) - 12])


def test_known_objectives_of_the_arms():
    first = bandit_arm_means(Bandit()) - 2.0 * bandit_arm_lpms(Bandit())
    second = bandit_arm_means(Bandit()) - bandit_arm_lpms(Bandit(), order=2)

    assert first == pytest.approx([0.20211, -0.78731, 0.69060], abs=1e-5)
    assert second == pytest.approx([0.5, -14.0, 1.14359], abs=1e-5)


def test_with_a_variance_of_six_the_second_arm_would_win():
    env = Bandit(std_b=np.sqrt(6.0))

    assert np.argmax(bandit_arm_means(env) - 2.0 * bandit_arm_lpms(env)) == 1


def test_the_uniform_policy_has_more_lpm_than_proxy():
    thirds = np.ones(3) / 3

    assert bandit_lpm(Bandit(), thirds) == pytest.approx(1.455, abs=5e-4)
    assert bandit_proxy(Bandit(), thirds) == pytest.approx(1.316, abs=5e-4)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("target", [0.3, 1.7, [0.1, 2.9, 1.1], None])
def test_arms_agree_with_numerical_integration(order, target):
    about = [arm.mean() for arm in OTHER_ARMS] if target is None else np.broadcast_to(target, 3)
    expected = [
        integrate.quad(
            lambda x, arm=arm, tau=tau: (tau - x) ** order * arm.pdf(x),
            max(arm.support()[0], tau - 60.0),
            max(tau, arm.support()[0]),
            points=[tau - 3.0, tau - 1.0] if np.isinf(arm.support()[0]) else None,
            limit=200,
        )[0]
        for arm, tau in zip(OTHER_ARMS, about, strict=True)
    ]

    assert bandit_arm_lpms(OTHER, target, order) == pytest.approx(expected, rel=1e-7, abs=1e-9)


def test_a_policy_is_the_mixture_of_its_arms():
    rng = np.random.default_rng(3)
    n = 400_000
    arms = rng.choice(3, n, p=MIX)
    draws = np.stack([arm.rvs(n, random_state=rng) for arm in OTHER_ARMS])
    rewards = draws[arms, np.arange(n)]
    own_mean = np.array([arm.mean() for arm in OTHER_ARMS])[arms]

    for samples, exact in (
        (rewards, bandit_mean(OTHER, MIX)),
        (np.maximum(own_mean - rewards, 0.0) ** 2, bandit_proxy(OTHER, MIX, order=2)),
        (np.maximum(0.9 - rewards, 0.0), bandit_lpm(OTHER, MIX, target=0.9)),
        (np.maximum(bandit_mean(OTHER, MIX) - rewards, 0.0), bandit_lpm(OTHER, MIX)),
    ):
        assert abs(samples.mean() - exact) < 4 * samples.std() / np.sqrt(n)


@pytest.mark.parametrize("arm", [0, 1, 2])
def test_a_policy_of_one_arm_is_the_arm(arm):
    only = np.eye(3)[arm]

    assert bandit_mean(OTHER, only) == bandit_arm_means(OTHER)[arm]
    assert bandit_proxy(OTHER, only, order=2) == bandit_arm_lpms(OTHER, order=2)[arm]
    assert bandit_lpm(OTHER, only, order=2) == bandit_proxy(OTHER, only, order=2)


def test_what_is_no_policy_is_refused():
    with pytest.raises(ValueError, match=r"probabilities is \[0\.5, 0\.4, 0\.3\]; .*sum of 1"):
        bandit_mean(OTHER, [0.5, 0.4, 0.3])
    with pytest.raises(ValueError, match=r"probabilities is \[0\.5, 0\.5\]; give three"):
        bandit_proxy(OTHER, [0.5, 0.5])
    with pytest.raises(ValueError, match=r"lies in \[0, 1\]"):
        bandit_lpm(OTHER, [1.5, -0.5, 0.0])
