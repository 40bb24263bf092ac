"""The consumption problem of the paper's Fig. 5: Merton's, with an asset that may default."""

from typing import Literal, final, get_args

import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, Float, Int

from downside.checks import (
    check_choice,
    check_count,
    check_finite,
    check_not_negative,
    check_positive,
    check_probability,
)
from downside.environments.base import (
    Environment,
    Noise,
    Real,
    Transition,
    cut_discount,
    draw_noise,
    settle_numbers,
)
from downside.records import record, static

ConsumptionTarget = Literal["fixed-rate", "printed-steps", "printed-time", "capital"]


@record
class ConsumptionState:
    """The wealth that is left and the steps that are done."""

    wealth: Float[Array, ""]
    time: Int[Array, ""]


@final
@record
class Consumption(Environment[ConsumptionState]):
    """Choose at each step what share of the rest to put at risk and what fraction to consume.

    The action is ``[risky share, consumed fraction]``, both clipped to [0, 1]; the reward is what
    is consumed. A default loses the risky part, consumes the liquid part and ends the episode; so
    do the last step (what is left is lost) and a wealth below ``ruin_wealth``. The observation is
    ``[time, wealth]``.

    ``target`` chooses the per-step target that `step_target` gives to the risk proxy:
    "fixed-rate", W / (T - t), what somebody consumes who spends the wealth evenly (it sums to the
    initial wealth); "printed-steps" and "printed-time", the paper's W dt (T - t) with T in steps or
    as time 1; "capital", an even share of the *initial* wealth at each step, and the unmet rest on
    a step that ends the episode early, so that the proxy bounds the loss of capital.

    >>> import jax
    >>> consumption = Consumption(default_probability=0.0)
    >>> state, obs = consumption.reset(consumption.draw(jax.random.key(0)))
    >>> step = consumption.step(jax.random.key(1), state, jnp.asarray([0.0, 0.1]))
    >>> [round(float(x), 6) for x in (step.reward, *step.next_obs)]
    [0.1, 1.0, 0.900225]
    """

    liquid_drift: Real = 0.05
    drift: Real = 1.0
    volatility: Real = 0.25
    default_probability: Real = 0.0015
    time_step: Real = 0.005
    initial_wealth: Real = 1.0
    ruin_wealth: Real = 1e-4
    discount: Real = 1.0
    horizon: int = static(default=200)
    target: ConsumptionTarget = static(default="fixed-rate")

    def __post_init__(self) -> None:
        settle_numbers(self)
        check_probability("default_probability", self.default_probability)
        check_probability("discount", self.discount)
        check_positive("time_step", self.time_step)
        check_positive("initial_wealth", self.initial_wealth)
        check_not_negative("volatility", self.volatility)
        check_not_negative("ruin_wealth", self.ruin_wealth)
        check_finite("liquid_drift", self.liquid_drift)
        check_finite("drift", self.drift)
        check_count("horizon", self.horizon, least=1)
        check_choice("target", self.target, get_args(ConsumptionTarget))

    @property
    def observation_space(self) -> spaces.Box:
        """Time from 0 to the horizon; wealth is not bounded from above."""
        high = np.array([self.horizon, np.inf], np.float32)
        return spaces.Box(np.zeros(2, np.float32), high, dtype=np.float32)

    @property
    def action_space(self) -> spaces.Box:
        """Risky share and consumed fraction."""
        return spaces.Box(0.0, 1.0, (2,), np.float32)

    def draw(self, key: Array, shape: tuple[int, ...] = ()) -> Noise:
        """A uniform number for the default, a normal one for the price."""
        return draw_noise(key, shape, n_uniform=1, n_normal=1)

    def reset(self, noise: Noise) -> tuple[ConsumptionState, Array]:
        """Start with the initial wealth."""
        wealth = jnp.asarray(self.initial_wealth) * jnp.asarray(1.0)  # a number given as an int too
        state = ConsumptionState(wealth, jnp.asarray(0))
        return state, _observe(state)

    def mean_reward(self, state: ConsumptionState, action: Array) -> Float[Array, ""]:
        """Consumed, and with the default probability the liquid rest as well."""
        share, consumed, rest = self._split(state, action)
        return consumed + self.default_probability * (1.0 - share) * rest

    def transition(
        self, state: ConsumptionState, action: Array, noise: Noise
    ) -> Transition[ConsumptionState]:
        """Consume, then default or let both assets grow.

        W' = rest (1 + r dt + x ((mu - r) dt + sigma sqrt(dt) Z)), r the liquid drift, x the share.
        """
        action = jnp.asarray(action)
        share, consumed, rest = self._split(state, action)
        default = noise.uniform[0] < self.default_probability
        excess = (self.drift - self.liquid_drift) * self.time_step
        shock = self.volatility * jnp.sqrt(self.time_step) * noise.normal[0]
        growth = 1.0 + self.liquid_drift * self.time_step + share * (excess + shock)
        time = state.time + 1
        wealth = jnp.where(default, 0.0, rest * growth)
        terminated = default | (time >= self.horizon) | (wealth < self.ruin_wealth)
        next_state = ConsumptionState(wealth, time)
        return Transition(
            obs=_observe(state),
            action=action,
            reward=consumed + jnp.where(default, (1.0 - share) * rest, 0.0),
            mean_reward=self.mean_reward(state, action),
            next_obs=_observe(next_state),
            next_state=next_state,
            discount=cut_discount(self.discount, terminated),
            terminated=terminated,
            truncated=jnp.asarray(False),
            time=state.time,
        )

    def step_target(self, transition: Transition[ConsumptionState]) -> Float[Array, ""]:
        """The reward that this step should have brought, as ``target`` says."""
        wealth = transition.obs[1]
        steps = jnp.asarray(self.horizon).astype(wealth.dtype)
        left = steps - transition.obs[0]
        if self.target == "fixed-rate":
            return wealth / left
        if self.target == "printed-steps":
            return wealth * self.time_step * left
        if self.target == "printed-time":
            return wealth * self.time_step * (1.0 - self.time_step * transition.obs[0])
        charged_steps = jnp.where(transition.terminated, left, 1.0)
        return self.initial_wealth * charged_steps / steps

    def render(self, state: ConsumptionState) -> str:
        """Time and wealth."""
        time, wealth = int(np.asarray(state.time)), float(np.asarray(state.wealth))
        return f"step {time}/{self.horizon}  wealth {wealth:.4f}"

    def _split(self, state: ConsumptionState, action: Array) -> tuple[Array, Array, Array]:
        share, fraction = jnp.clip(jnp.asarray(action).astype(state.wealth.dtype), 0.0, 1.0)
        consumed = fraction * state.wealth
        return share, consumed, state.wealth - consumed


def _observe(state: ConsumptionState) -> Float[Array, "2"]:
    return jnp.stack([state.time.astype(state.wealth.dtype), state.wealth])
