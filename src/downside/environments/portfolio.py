"""The portfolio problem of the paper's Fig. 4: cash, and an illiquid asset that may default."""

from typing import Any, Literal, final, get_args

import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, Bool, Float, Int

from downside.arrays import once
from downside.checks import (
    check_choice,
    check_count,
    check_positive,
    check_probability,
    check_range,
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

Accrual = Literal["compound", "purchase", "maturity"]


@record
class PortfolioState:
    """Cash, the value of the orders by time to maturity (the first matures next), the rate."""

    liquid: Float[Array, ""]
    pending: Float[Array, " maturity"]
    rate_is_high: Bool[Array, ""]
    high_steps: Int[Array, ""]
    time: Int[Array, ""]


@record
class _Ledger:
    """What one step moves: cash after buying and interest, what matures, what was bought."""

    cash: Float[Array, ""]
    payoff: Float[Array, ""]
    bought: Float[Array, ""]
    rate: Float[Array, ""]


@final
@record
class Portfolio(Environment[PortfolioState]):
    """Buy up to ``max_order`` units of an asset that matures after ``maturity`` steps or defaults.

    The reward is the log-return of the liquid wealth, so the undiscounted return of an episode is
    log(liquid wealth at its end). One step, in this order: buy (cut to what can be afforded, one
    unit always stays liquid), interest on the rest, the oldest order pays its value or is lost as
    a whole, the interest rate of the illiquid asset switches. What is pending at the end is worth
    nothing. The observation is ``[liquid, pending_1, ..., rate - mean of the past rates]``.

    ``accrual``: "compound", the value of a pending order grows with the current rate at every
    step; "purchase", one gross payment at the rate of the purchase; "maturity", at the rate of the
    maturity. Only the first gives the trends of Fig. 4.

    >>> import jax
    >>> portfolio = Portfolio(default_probability=0.2)
    >>> state, obs = portfolio.reset(portfolio.draw(jax.random.key(0)))
    >>> step = portfolio.step(jax.random.key(1), state, jnp.asarray(5))
    >>> [round(float(x), 4) for x in step.next_obs[:5]]
    [0.9045, 0.0, 0.0, 0.0, 0.105]
    """

    log_returns = True

    liquid_rate: Real = 1.005
    high_rate: Real = 1.25
    low_rate: Real = 1.05
    up_probability: Real = 0.1
    down_probability: Real = 0.6
    default_probability: Real = 0.1
    unit_cost: Real = 0.02
    discount: Real = 0.99
    max_order: int = static(default=10)
    maturity: int = static(default=4)
    horizon: int = static(default=50)
    accrual: Accrual = static(default="compound")

    def __post_init__(self) -> None:
        settle_numbers(self)
        for name in ("liquid_rate", "high_rate", "low_rate", "unit_cost"):
            check_positive(name, getattr(self, name))
        needed = "one unit stays liquid out of an initial wealth of 1, so it is at most 1"
        check_range("unit_cost", self.unit_cost, 0.0, 1.0, needed)
        for name in ("up_probability", "down_probability", "default_probability", "discount"):
            check_probability(name, getattr(self, name))
        for name in ("max_order", "maturity", "horizon"):
            check_count(name, getattr(self, name), least=1)
        check_choice("accrual", self.accrual, get_args(Accrual))

    @property
    def observation_space(self) -> spaces.Box:
        """Wealth and orders are not bounded from above; the rate's deviation is."""
        spread = abs(np.float32(self.high_rate) - np.float32(self.low_rate))  # rounded as observed
        low = np.array([0.0] * (1 + self.maturity) + [-spread], np.float32)
        high = np.array([np.inf] * (1 + self.maturity) + [spread], np.float32)
        return spaces.Box(low, high, dtype=np.float32)

    @property
    def action_space(self) -> spaces.Discrete[Any]:
        """The number of units to order."""
        return spaces.Discrete(self.max_order + 1)

    def draw(self, key: Array, shape: tuple[int, ...] = ()) -> Noise:
        """One uniform number for the default, one for the switch of the rate."""
        return draw_noise(key, shape, n_uniform=2, n_normal=0)

    def reset(self, noise: Noise) -> tuple[PortfolioState, Array]:
        """Start with a liquid wealth of 1, nothing pending, the low rate."""
        state = PortfolioState(
            liquid=jnp.asarray(1.0),
            pending=jnp.zeros(self.maturity),
            rate_is_high=jnp.asarray(False),
            high_steps=jnp.asarray(0),
            time=jnp.asarray(0),
        )
        return state, self._observe(state)

    def mean_reward(self, state: PortfolioState, action: Array) -> Float[Array, ""]:
        """(1 - p) log((cash + payoff) / liquid) + p log(cash / liquid), p the default probability.

        The next rate does not enter the reward, so this is exact.
        """
        ledger = self._settle(state, action)
        return self._mean_reward(*_log_growth(state, ledger.cash + ledger.payoff, ledger.cash))

    def transition(
        self, state: PortfolioState, action: Array, noise: Noise
    ) -> Transition[PortfolioState]:
        """Buy, earn, collect or lose the maturing order, let the rate switch."""
        action = jnp.asarray(action)
        ledger = self._settle(state, action)
        default = noise.uniform[0] < self.default_probability
        liquid = once(ledger.cash + jnp.where(default, 0.0, ledger.payoff))
        growth = ledger.rate if self.accrual == "compound" else jnp.ones_like(ledger.rate)
        entry = ledger.bought * (1.0 if self.accrual == "maturity" else ledger.rate)
        switches = noise.uniform[1] < jnp.where(
            state.rate_is_high, self.down_probability, self.up_probability
        )
        next_state = PortfolioState(
            liquid=liquid,
            pending=jnp.append(state.pending[1:] * growth, entry),
            rate_is_high=state.rate_is_high ^ switches,
            high_steps=state.high_steps + state.rate_is_high.astype(state.high_steps.dtype),
            time=state.time + 1,
        )
        terminated = next_state.time >= self.horizon
        earned, paid, lost = _log_growth(state, liquid, ledger.cash + ledger.payoff, ledger.cash)
        return Transition(
            obs=self._observe(state),
            action=action,
            reward=earned,
            mean_reward=self._mean_reward(paid, lost),
            next_obs=self._observe(next_state),
            next_state=next_state,
            discount=cut_discount(self.discount, terminated),
            terminated=terminated,
            truncated=jnp.asarray(False),
            time=state.time,
        )

    def render(self, state: PortfolioState) -> str:
        """Time, cash, pending orders and the rate."""
        pending = ", ".join(f"{value:.3f}" for value in np.asarray(state.pending))
        rate = "high" if bool(np.asarray(state.rate_is_high)) else "low"
        time, liquid = int(np.asarray(state.time)), float(np.asarray(state.liquid))
        return f"step {time}/{self.horizon}  liquid {liquid:.4f}  pending [{pending}]  rate {rate}"

    def _mean_reward(self, paid: Float[Array, ""], lost: Float[Array, ""]) -> Float[Array, ""]:
        return (1.0 - self.default_probability) * paid + self.default_probability * lost

    def _rate(self, state: PortfolioState) -> Float[Array, ""]:
        return jnp.where(state.rate_is_high, self.high_rate, self.low_rate)

    def _observe(self, state: PortfolioState) -> Float[Array, " n"]:
        # rate - mean of the past rates, counted so that no rounding blurs its sign
        steps = jnp.maximum(state.time, 1).astype(state.liquid.dtype)
        past = state.high_steps.astype(state.liquid.dtype) / steps
        now = state.rate_is_high.astype(state.liquid.dtype)
        deviation = (self.high_rate - self.low_rate) * (now - past)
        return jnp.concatenate([state.liquid[None], state.pending, deviation[None]])

    def _settle(self, state: PortfolioState, action: Array) -> _Ledger:
        rounding = max(1e-9, 16 * float(jnp.finfo(state.liquid.dtype).eps))
        affordable = jnp.floor((state.liquid - self.unit_cost) / self.unit_cost + rounding)
        order = jnp.clip(jnp.asarray(action), 0, self.max_order).astype(state.liquid.dtype)
        bought = self.unit_cost * jnp.minimum(order, jnp.maximum(affordable, 0.0))
        rate = self._rate(state)
        due = state.pending[0]
        return _Ledger(
            cash=self.liquid_rate * (state.liquid - bought),
            payoff=due if self.accrual == "purchase" else due * rate,
            bought=bought,
            rate=rate,
        )


def _log_growth(state: PortfolioState, *liquid: Array) -> Float[Array, " n"]:
    """log(liquid' / liquid) of each; side by side several cost what one does."""
    return jnp.log(jnp.stack([after / state.liquid for after in liquid]))
