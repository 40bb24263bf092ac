"""The same method in batches: fewer samples, and no dependence on the reward's scale.

Every ``period`` steps: values of reward and risk by ridge regression over the recent batches,
advantages with a trace, a multiplier with a proportional part, and a natural step of a given size
in nats. All signals are divided by their own size in the first batch, so that the settings mean
the same whatever the units of the reward. Here is what such a learner is told and what it carries;
`batch_learner` has its loop, `batch_update` what it learns from a batch.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Literal, final, get_args

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from downside.agents.actor_critic import Direction
from downside.agents.multiplier import PID, MultiplierRule
from downside.arrays import is_traced
from downside.checks import (
    check_choice,
    check_count,
    check_not_negative,
    check_positive,
    check_probability,
)
from downside.policies.base import Policy
from downside.records import carry_functions, record, static
from downside.signals import Signal, TDError
from downside.training.counting import Counts
from downside.training.counting_by_time import TimedCounts
from downside.training.fisher import Scores, states_of
from downside.training.learner import Episode, Progress
from downside.training.settling import Settling
from downside.training.units import GainUnit, RiskUnit

BatchMeasure = Literal["sampled", "lpm"]


@final
@record
class Batches:
    """The settings of one learner in batches; numbers are leaves, to be vmapped over.

    ``signals`` and ``thresholds`` as for `ActorCritic`. ``period`` steps make a batch. Values are
    linear in [baseline of the policy | ``value_features(obs, time)``]; older batches count
    ``memory`` as much. ``trace_decay`` is that of the advantages: below 1 with good value features.
    A policy step changes the policy by at most kl / (1 + steps / ``kl_steps``) nats, and its length
    is at most ``step_limit`` times that of the first one for the same gradient: near an optimum the
    gradient vanishes, and the steps with it. ``damping`` is added to the Fisher matrix, in units of
    its mean diagonal in the first batch. ``temperature`` rewards entropy, in the ``gain_unit``. The
    last three keep a policy from becoming deterministic before the multiplier has found its value,
    from where no sample would bring it back. Where ``annealed``, nats fall with the square of (1 +
    steps / ``kl_steps``), the temperature with its cube, the damping and the multiplier's rate
    and weight with its root: much entropy while the multiplier looks for its value and little
    in the end, steps whose lengths fall as 1 / n, and what is rarely tried still comes back. Under
    a bound the temperature falls more slowly until the multiplier is found, and the policy that is
    shown is an average of the last ones (see `settling`). Where ``centred``, advantages are told
    from their mean in the batch: values that lag behind a policy that improves leave one, which
    says nothing of an action and adds noise to the direction. ``risk_unit`` is what a multiplier of
    1 weighs against the spread of the return: the first batch's "size" of what is bounded, or its
    "spread", in which excesses then count too. ``gain_unit`` is the unit of the gains beside which
    temperature and step limit count: the spread of the return in the "first" batch, or their own in
    this "batch", since the first may have met a hundredth of the rewards that are to come, or
    losses a hundred times those that will be left. After ``episode_limit`` steps an episode is cut
    short and begun anew (see `cutting`).

    Where ``counted``, for policies with a preference for each action of each numbered state, values
    and advantages are those of a count of all steps, which fade by ``memory`` (see `counting`), and
    a multiplier follows the risk that they predict: ridge, trace, damping, gain unit and centring
    have no part in it. Nats fall as they do without ``annealed``, and the temperature waits for no
    multiplier.
    """

    env: Any
    policy: Policy
    signals: tuple[Signal, ...]
    thresholds: tuple[Any, ...] = ()
    multiplier: MultiplierRule = PID(rate=0.3, gain=2.0, weight=0.5, growing=True)
    kl: Any = 0.05
    kl_steps: Any = 5e4
    trace_decay: Any = 1.0
    memory: Any = 0.9
    ridge: Any = 1e-4
    damping: Any = 0.1
    step_limit: Any = 2.0
    temperature: Any = 1e-3
    pretraining: Any = 0
    value_features: Callable[[Any, Any], Any] | None = None
    mean_reward: Any = None
    lpm_target: Any = None
    lpm_order: float = static(default=1)
    average_weight: Any = 3e-3
    period: int = static(default=2000)
    direction: Direction = static(default="natural")
    risk_unit: RiskUnit = static(default="size", later=True)
    episode_limit: int | None = static(default=None, later=True)
    annealed: bool = static(default=False, later=True)
    gain_unit: GainUnit = static(default="first", later=True)
    centred: bool = static(default=False, later=True)
    counted: bool = static(default=False, later=True)
    measure: BatchMeasure = static(default="sampled")
    tile: ClassVar[int] = 8  # learners that are stepped together: their batches stay in the cache

    def __post_init__(self) -> None:
        carry_functions(self, "value_features")
        check_count("period", self.period, least=2)
        if self.episode_limit is not None:
            check_count("episode_limit", self.episode_limit, least=1)
        check_choice("direction", self.direction, get_args(Direction))
        check_choice("measure", self.measure, get_args(BatchMeasure))
        check_choice("gain_unit", self.gain_unit, get_args(GainUnit))
        check_choice("risk_unit", self.risk_unit, get_args(RiskUnit))
        if self.counted and (states_of(self.policy) is None or self.value_features is not None):
            raise ValueError(
                "counted=True is for policies with a preference for each action of each numbered "
                "state, without value features; leave counted= out"
            )
        discounts = [signal.discount for signal in self.signals]
        if (
            self.counted
            and self.env.horizon is None
            and not all(is_traced(d) or np.all(np.less(d, 1.0)) for d in discounts)
        ):
            raise ValueError(
                "counted=True needs a horizon or discounts below 1, and those of the signals are "
                f"{discounts}; leave counted= out"
            )
        targets = [getattr(signal, "target", None) for signal in self.signals]
        has_td_errors = any(isinstance(target, TDError) for target in targets)
        if self.counted and self.env.horizon is not None and has_td_errors:
            raise ValueError(
                "counted=True with a horizon has values that do not know the time, and TDError() "
                "is about their differences; leave counted= out"
            )
        for name in ("kl", "kl_steps", "ridge", "step_limit"):
            check_positive(name, getattr(self, name))
        for name in ("damping", "pretraining", "temperature"):
            check_not_negative(name, getattr(self, name))
        for name in ("trace_decay", "memory"):
            check_probability(name, getattr(self, name))

    @property
    def n_constraints(self) -> int:
        """How many quantities are bounded."""
        return len(self.thresholds)

    def features(self, obs: Any, time: Any) -> Float[Array, " n"]:
        """Features of a state's value."""
        x = jnp.asarray(self.policy.baseline(obs))
        if self.value_features is None:
            return x
        return jnp.concatenate([x, jnp.asarray(self.value_features(obs, time), x.dtype)])


@record
class BatchLearner:
    """What is carried from batch to batch.

    From the first batch: ``scale``, the size of the features; ``units``, that of the signals, which
    the multipliers refer to; ``spread``, the mean diagonal of the Fisher matrix; ``reach``, how far
    the first step went along its direction. ``counts`` are there where steps are counted.
    """

    theta: Float[Array, " P"]
    gram: Float[Array, "n n"]
    moment: Float[Array, "k n"]
    weights: Float[Array, "k n"]
    scale: Float[Array, " n"]
    units: Float[Array, " k"]
    spread: Float[Array, ""]
    reach: Float[Array, ""]
    multipliers: tuple[Any, ...]
    mean_reward: Any
    mean_return: Float[Array, ""]
    env_state: Any
    obs: Any
    episode: Episode
    steps: Int[Array, ""]
    episodes: Int[Array, ""]
    updates: Int[Array, ""]
    failed: Int[Array, ""]
    progress: Progress
    settling: Settling | None
    counts: Counts | TimedCounts | None


@record
class Steps:
    """A batch of steps: features of the values, scores, signals, and where sums end (``over``)."""

    x: Float[Array, "*t n"]
    next_x: Float[Array, "*t n"]
    scores: Scores
    log_prob: Float[Array, "*t"]
    cumulants: Float[Array, "*t k"]
    discounts: Float[Array, "*t k"]
    over: Any
    action: Any
    time: Any


@record
class Found:
    """Over the episodes that ended in this batch: their number, and sums of what is bounded."""

    episodes: Float[Array, ""]
    measured: Float[Array, " c"]
