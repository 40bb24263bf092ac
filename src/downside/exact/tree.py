"""The tree in closed form."""

from typing import Any

from downside.arrays import array_module


def tree_mean(right: Any, up: Any, discount: Any = 1.0) -> Any:
    """E[G] = 2 right - 1 + g (2 up - 1), with the probabilities of going right and then up.

    All functions of the tree broadcast over their arguments, for NumPy and for JAX.

    >>> tree_mean(0.75, 0.5)
    0.5
    """
    return 2.0 * right - 1.0 + discount * (2.0 * up - 1.0)


def tree_variance(right: Any, up: Any, discount: Any = 1.0) -> Any:
    """V[G] = 4 right (1 - right) + 4 g^2 up (1 - up): 0 at all four corners.

    >>> tree_variance(0.75, 0.5)
    1.75
    """
    return 4.0 * right * (1.0 - right) + 4.0 * discount**2 * up * (1.0 - up)


def tree_lpm(right: Any, up: Any, discount: Any = 1.0) -> Any:
    """E[(0 - G)+] = (1 - right) (1 + g - 2 g up); 2 (1 - right) (1 - up) without a discount.

    >>> tree_lpm(0.75, 0.5)
    0.25
    """
    return (1.0 - right) * (1.0 + discount - 2.0 * discount * up)


def tree_proxy(right: Any, up: Any, discount: Any = 1.0) -> Any:
    """J_C = 1 - right + g (1 - up), the proxy with a target of 0 at each step.

    >>> tree_proxy(0.75, 0.5)
    0.75
    """
    return 1.0 - right + discount * (1.0 - up)


def tree_centralised_lpm(right: Any, up: Any, discount: Any = 1.0) -> Any:
    """E[(E[G] - G)+], the lower partial moment about the policy's own mean.

    >>> float(tree_centralised_lpm(0.75, 0.5))   # G = -2 and 0 lie below 0.5: 2.5 / 8 + 0.5 / 2
    0.5625
    """
    xp = array_module(right, up, discount)
    mean = tree_mean(right, up, discount)
    return sum(
        first * second * xp.maximum(mean - reward - discount * next_reward, 0.0)
        for first, reward in ((right, 1.0), (1.0 - right, -1.0))
        for second, next_reward in ((up, 1.0), (1.0 - up, -1.0))
    )
