"""Fresh episodes of a policy in a Python environment: the three numbers of risk."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from downside.evaluation import RiskNumbers
from downside.policies.base import Policy
from downside.signals import Predictions, Proxy, Target
from downside.training.hosting import Hosting
from downside.training.recorded import Recorded, transition_of
from downside.training.sampling import sampler
from downside.training.streams import Stream, stack, with_done

_EVALUATION = 2**31
"""A stream that no learner has."""


def evaluate_on_host(
    hosting: Hosting,
    policy: Policy,
    theta: Any,
    target: Target,
    order: float,
    n_episodes: int,
    seed: int,
) -> RiskNumbers:
    """Episodes with seeds of their own, measured as the problem is discounted."""
    host = hosting.first if hosting.make is None else hosting.make()
    stream = Stream(host, (seed, _EVALUATION), online=False, means=hosting.means)
    signal = Proxy(target, host.discount, host.horizon, order)
    sums, current, n_cut = np.zeros((3, n_episodes)), 0, 0
    sample, period = sampler(policy, np.asarray(theta)), 0
    while current < n_episodes:
        noise = stream.noise(policy, period, 1000)
        steps = with_done(stack([stream.record(sample, noise)]), host.action_space)
        period += 1
        measured = np.asarray(_measure(signal, host.discount, steps), float)
        over = (steps.terminated | steps.truncated)[0]
        episode = current + np.cumsum(over) - over
        current, kept = current + int(over.sum()), episode < n_episodes
        powers = float(host.discount) ** np.asarray(steps.time[0], float)
        for row, values in zip(sums, measured, strict=True):
            np.add.at(row, episode[kept], (powers * values)[kept])
        n_cut += int((steps.truncated & ~steps.terminated)[0][kept].sum())
    returns, targets, signals = sums
    cut = n_cut / n_episodes
    return RiskNumbers.of_episodes(returns, targets, signals, target, order, cut=cut)


@jax.jit
def _measure(signal: Proxy, discount: Any, steps: Recorded) -> tuple[Array, Array, Array]:
    """Reward, target and signal of every step."""

    def one(step: Recorded) -> tuple[Any, Any, Any]:
        transition, nothing = transition_of(discount, step), Predictions()
        aim = signal.target.step_target(transition, nothing, signal.discount, signal.horizon)
        return transition.reward, aim, signal.cumulant(transition, nothing)

    return jax.vmap(one)(jax.tree.map(lambda x: x[0], steps))
