"""The bandit in closed form: its arms, and policies that mix them."""

from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from downside.checks import check_probability
from downside.closed_forms import normal_lower_partial_moment, pareto_lower_partial_moment
from downside.environments.bandit import Bandit


def bandit_arm_means(env: Bandit) -> Float[np.ndarray, "3"]:
    """The mean of each arm, in double precision.

    >>> bandit_arm_means(Bandit()).tolist()
    [1.0, 4.0, 3.0]
    """
    scale, shape = _numbers(env.pareto_scale, env.pareto_shape)
    return np.array([*_numbers(env.mean_a, env.mean_b), scale * shape / (shape - 1.0)])


def bandit_arm_lpms(
    env: Bandit, target: ArrayLike | None = None, order: float = 1
) -> Float[np.ndarray, "3"]:
    """E[((target - R)+)^order] of each arm, about one target, one per arm, or each arm's mean.

    >>> bandit_arm_lpms(Bandit()).round(5).tolist()   # 1 / sqrt(2 pi), 6 / sqrt(2 pi), 2 / sqrt(3)
    [0.39894, 2.39365, 1.1547]
    """
    about = np.broadcast_to(bandit_arm_means(env) if target is None else target, (3,))
    mean_a, std_a, mean_b, std_b = _numbers(env.mean_a, env.std_a, env.mean_b, env.std_b)
    scale, shape = _numbers(env.pareto_scale, env.pareto_shape)
    return np.array(
        [
            normal_lower_partial_moment(mean_a, std_a, about[0], order),
            normal_lower_partial_moment(mean_b, std_b, about[1], order),
            pareto_lower_partial_moment(scale, shape, about[2], order),
        ]
    )


def bandit_mean(env: Bandit, probabilities: ArrayLike) -> float:
    """E[R] of a policy that draws its arm with ``probabilities``.

    >>> bandit_mean(Bandit(), [0.5, 0.25, 0.25])
    2.25
    """
    return float(_policy(probabilities) @ bandit_arm_means(env))


def bandit_proxy(env: Bandit, probabilities: ArrayLike, order: float = 1) -> float:
    """J_C of the centralised target: the mean over the arms of their moments about own means.

    >>> round(bandit_proxy(Bandit(), [1 / 3, 1 / 3, 1 / 3]), 3)
    1.316
    """
    return float(_policy(probabilities) @ bandit_arm_lpms(env, order=order))


def bandit_lpm(
    env: Bandit, probabilities: ArrayLike, target: float | None = None, order: float = 1
) -> float:
    """E[((target - R)+)^order] of the policy's reward, a mixture; about its own mean by default.

    The luck of drawing an arm is in it, so it can exceed the centralised proxy.

    >>> round(bandit_lpm(Bandit(), [1 / 3, 1 / 3, 1 / 3]), 3)
    1.455
    """
    about = bandit_mean(env, probabilities) if target is None else target
    return float(_policy(probabilities) @ bandit_arm_lpms(env, about, order))


def _numbers(*values: Any) -> list[float]:
    return [float(np.asarray(value)) for value in values]


def _policy(probabilities: ArrayLike) -> Float[np.ndarray, "3"]:
    table = np.asarray(probabilities, float)
    if table.shape != (3,) or not np.isclose(table.sum(), 1.0, rtol=0.0, atol=1e-6):
        raise ValueError(
            f"probabilities is {table.tolist()}; give three numbers with a sum of 1, one per arm"
        )
    check_probability("probabilities", table)
    return table
