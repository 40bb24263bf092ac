"""How a learner under a bound cools down, and which policy it shows.

A policy that becomes deterministic before its multiplier has found its value is caught: no sample
brings back what it no longer tries. So its entropy fades by a clock that goes slowly while the
multiplier looks for its value, and after a multiplier has fallen to 0, what it had pushed aside is
tried now and then: else a learner that fell far below its bound would stay there. And a policy
under a bound swings about it, since policy and multiplier chase each other; what settles is the
average of its parameters or, where steps are counted, of its visits, which is shown unless no bound
has bound for long.
"""

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, Int

from downside.records import record
from downside.training.fisher import states_of
from downside.training.learner import current_multipliers

PATIENCE = 0.3
"""How fast the clock goes while a risk stays on one side of its bound."""

OUTWEIGHED = 100.0
"""A multiplier beyond which the reward hardly counts: it has nothing left to look for."""

TRIED = 0.04
"""How often, at first, a state tries any action after the last multiplier has fallen to 0."""

RECENT = 4.0
"""The n-th policy counts about as n to this power: most of it is made of the last quarter of a run,
which is longer than most swings about a bound."""

FARTHEST = 14.0
"""Where steps are counted: how far below the largest of its state a preference can fall."""

SLOW = 0.05
"""How much a batch weighs in the slow average of a risk, longer than most swings about a bound."""


@record
class Settling:
    """The clock by which entropy fades, in steps, and the average of the policies.

    ``bound_at`` is the last step at which a multiplier was above 0. Where steps are counted, what
    is averaged are the ``visits`` (states, actions) of the policies, since mean and risk are linear
    in them; ``levels`` are slow averages of what is bounded.
    """

    clock: Float[Array, ""]
    theta: Float[Array, " P"]
    bound_at: Int[Array, ""]
    visits: Any = None
    levels: Any = None

    def later(self, agent: Any, pace: Any) -> "Settling":
        """After a batch."""
        return replace(self, clock=self.clock + pace * agent.period)

    def was_bound(self, steps: Int[Array, ""]) -> Array:
        """Whether a multiplier was above 0 in the second half of the steps so far."""
        return steps - self.bound_at < self.bound_at

    def averaged(
        self,
        theta: Float[Array, " P"],
        n: Int[Array, ""],
        steps: Int[Array, ""],
        visits: Float[Array, "s a"] | None = None,
    ) -> "Settling":
        """With the n-th policy; it alone where no bound has bound lately, and nothing swings."""
        weight = (RECENT + 1.0) / (n.astype(theta.dtype) + RECENT)
        if visits is None:
            average, met = self.theta + weight * (theta - self.theta), None
        else:
            met = self.visits + weight * (visits - self.visits)
            average = policy_of(met, theta)
        shown = jnp.where(self.was_bound(steps), average, theta)
        return replace(self, theta=shown, visits=met)

    def levelled(self, means: Float[Array, " c"]) -> "Settling":
        """With what a batch has found of what is bounded; levels begin with the first risk."""
        weight = jnp.where(self.levels == 0.0, 1.0, SLOW)
        return replace(self, levels=self.levels + weight * (means - self.levels))


def policy_of(visits: Float[Array, "s a"], theta: Float[Array, " P"]) -> Float[Array, " P"]:
    """The preferences (actions, states) of the policy with these visits; else those of ``theta``.

    >>> policy_of(jnp.exp(jnp.array([[1.0, 2.0], [-jnp.inf, -jnp.inf]])), jnp.arange(4.0)).tolist()
    [1.0, 1.0, 2.0, 3.0]
    """
    least = jnp.finfo(theta.dtype).tiny
    is_met = jnp.sum(visits, axis=1) > least
    logits = jnp.log(jnp.maximum(visits, least)).T.reshape(-1)
    return jnp.where(jnp.tile(is_met, visits.shape[1]), logits, theta)


def begin_settling(agent: Any, theta: Float[Array, " P"]) -> Settling | None:
    """Before the first batch; none where there is no constraint or nothing fades."""
    if not (agent.annealed and agent.thresholds):
        return None
    begun = Settling(jnp.zeros(()), theta, jnp.asarray(0))
    if not agent.counted:
        return begun
    n_actions = agent.policy.n_actions
    visits = jnp.zeros((theta.shape[0] // n_actions, n_actions))
    return replace(begun, visits=visits, levels=jnp.zeros(agent.n_constraints))


def settle(learner: Any, visits: Float[Array, "s a"] | None) -> Any:
    """After a policy step: the policy that is shown; ``visits`` are those of the one before it."""
    settling = learner.settling
    if settling is None:
        return learner
    n = jnp.maximum(learner.updates, 1)
    settled = settling.averaged(learner.theta, n, learner.steps, visits)
    return replace(learner, settling=settled)


def slowness(agent: Any, steps: Array) -> Float[Array, ""]:
    """1 + steps / kl_steps, by which what is annealed has fallen."""
    return 1.0 + steps.astype(float) / agent.kl_steps


def fading(agent: Any, learner: Any) -> Float[Array, ""]:
    """By how much the temperature has fallen: as time goes, or as the clock does under a bound.

    Where steps are counted nothing has to wait: what a policy no longer tries is still known.
    """
    settling = None if agent.counted else learner.settling
    return slowness(agent, learner.steps if settling is None else settling.clock) ** 3


def kept_open(agent: Any, learner: Any, theta: Float[Array, " P"]) -> Float[Array, " P"]:
    """``theta``, with every action of a numbered state likely enough after bounds have bound.

    After the last multiplier has fallen to 0, for as long as it had taken until then. A bound that
    never binds costs nothing, and one that does would make this cost risk. Each action has its
    share of ``TRIED``, which falls with the square of the temperature's clock. Where steps are
    counted, what was pushed aside is still known: no preference falls more than `FARTHEST` below
    the largest of its state, from where it comes back in a few steps.
    """
    settling, policy = learner.settling, agent.policy
    if agent.counted:
        logits = theta.reshape(policy.n_actions, -1)
        return jnp.maximum(logits, jnp.max(logits, axis=0) - FARTHEST).reshape(theta.shape)
    if settling is None or states_of(policy) is None:
        return theta
    is_slack = jnp.sum(current_multipliers(agent, learner)) == 0.0
    least = TRIED / policy.n_actions / slowness(agent, settling.clock) ** 2
    logits = theta.reshape(policy.n_actions, -1)
    floor = logsumexp(logits, axis=0) + jnp.log(least)
    opened = jnp.maximum(logits, floor).reshape(theta.shape)
    return jnp.where(is_slack & settling.was_bound(learner.steps), opened, theta)


def pace_of_clock(rule: Any, before: Any, excess: Float[Array, ""], after: Any) -> Array:
    """1 where a multiplier has nothing to look for or has found it, and `PATIENCE` elsewhere.

    It has found its value when the risk falls on the other side of the bound than it did on average
    before; it looks for nothing where it does not move, as without need of a bound, or where it
    outweighs the reward, as where no policy meets the bound.

    >>> from downside.agents import PID
    >>> rule = PID(rate=0.1, gain=2.0, weight=0.5)
    >>> above = rule.update(rule.init(), sampled=jnp.asarray(1.0), threshold=0.0)
    >>> [float(pace_of_clock(rule, above, jnp.asarray(x), rule.init())) for x in (-0.5, 1.0)]
    [1.0, 0.30000001192092896]
    """
    value = rule.value(after)
    idle = (value == rule.value(before)) | (value > OUTWEIGHED)
    crossed = excess * before.average < 0
    return jnp.where(idle | crossed, 1.0, PATIENCE)


def shown(learners: Any, bounded: np.ndarray) -> np.ndarray:
    """The parameters (learners, P) that each learner shows: averaged ones where it is bounded."""
    acting, settling = np.asarray(learners.theta), getattr(learners, "settling", None)
    if settling is None:
        return acting
    return np.where(bounded[:, None], np.asarray(settling.theta), acting)
