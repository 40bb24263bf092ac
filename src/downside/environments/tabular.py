"""Any finite Markov decision process, given by its tables."""

from collections.abc import Sequence
from typing import Any, final

import gymnasium
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, Float, Int

from downside.arrays import array_module, is_traced, sample_index
from downside.checks import check_count, check_finite, check_not_negative, check_probability
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

_ROUNDING = 1e-9


@record
class TabularState:
    """The index of the state and the steps that are done."""

    index: Int[Array, ""]
    time: Int[Array, ""]


@final
@record
class Tabular(Environment[TabularState]):
    """A finite MDP: each state and action lead to one of K outcomes.

    An outcome has a probability, a next state, a reward, and may end the episode.

    - ``transitions`` (S, A, K): the probabilities. With K = S and no ``next_states`` outcome k is
      state k: the usual transition table.
    - ``rewards``: (S, A, K) or anything that broadcasts to it, such as (S, A, 1).
    - ``next_states`` (S, A, K): where outcome k leads, where several outcomes share a state.
    - ``terminal``: the states whose entry ends the episode.
    - ``ends`` (S, A, K): the outcomes that end the episode, whatever state they lead to.
    - ``reward_std``: standard deviation of normal noise on the rewards; broadcasts too.
    - ``start`` (S,): distribution of the first state; state 0 if not given.
    - ``horizon``: the problem itself ends after so many steps.

    >>> stay_or_leave = Tabular(
    ...     transitions=[[[1.0, 0.0], [0.25, 0.75]], [[0.0, 1.0], [0.0, 1.0]]],
    ...     rewards=[[[1.0], [2.0]], [[0.0], [0.0]]],
    ...     terminal=[1],
    ...     discount=0.9,
    ... )
    >>> stay_or_leave.n_states, stay_or_leave.n_actions, stay_or_leave.ends[0, 1].tolist()
    (2, 2, [False, True])
    """

    transitions: Any
    rewards: Any
    next_states: Any = None
    terminal: Sequence[int] = static(default=())
    ends: Any = None
    reward_std: Any = 0.0
    start: Any = None
    discount: Real = 1.0
    horizon: int | None = static(default=None)

    def __post_init__(self) -> None:
        tables = (self.transitions, self.rewards, self.next_states, self.ends, self.reward_std)
        xp = array_module(*filter(is_traced, (*tables, self.start)))  # traced tables stay in JAX
        transitions = _table("transitions", self.transitions, xp)
        if transitions.ndim != 3 or 0 in transitions.shape:
            raise ValueError(
                f"transitions has the shape {transitions.shape}; it must be (states, actions, "
                "outcomes), at least one of each, and as many outcomes as states unless "
                "next_states is given"
            )
        n_states, _, n_outcomes = shape = transitions.shape
        _check_distribution("transitions", transitions, "(states, actions)")
        if self.next_states is None and n_outcomes != n_states:
            raise ValueError(
                f"transitions has {n_outcomes} outcomes for {n_states} states; "
                "give next_states to say where each outcome leads"
            )
        given = np.arange(n_states) if self.next_states is None else self.next_states
        next_states = _whole("next_states", _broadcast("next_states", given, shape, xp), n_states)
        terminal = _whole("terminal", np.asarray(tuple(self.terminal)), n_states)
        ends = _broadcast("ends", False if self.ends is None else self.ends, shape, xp)
        if not is_traced(ends) and not np.all((np.asarray(ends) == 0) | (np.asarray(ends) == 1)):
            raise ValueError("ends has entries that are neither true nor false")
        start = _table("start", np.eye(n_states)[0] if self.start is None else self.start, xp)
        if start.shape != (n_states,):
            raise ValueError(f"start has the shape {start.shape}; it must be ({n_states},)")
        _check_distribution("start", start, "states")
        rewards = _broadcast("rewards", _table("rewards", self.rewards, xp), shape, xp)
        check_finite("rewards", rewards)
        reward_std = _broadcast("reward_std", _table("reward_std", self.reward_std, xp), shape, xp)
        check_not_negative("reward_std", reward_std)
        check_probability("discount", self.discount)
        settle_numbers(self)
        if self.horizon is not None:
            check_count("horizon", self.horizon, least=1)
        for name, value in (
            ("transitions", transitions),
            ("rewards", rewards),
            ("next_states", next_states),
            ("terminal", tuple(int(state) for state in terminal)),
            ("ends", ends.astype(bool) | xp.isin(next_states, terminal)),
            ("reward_std", reward_std),
            ("start", start),
        ):
            object.__setattr__(self, name, value)

    @classmethod
    def from_gymnasium(
        cls,
        env: str | gymnasium.Env[Any, Any],
        *,
        discount: Real = 1.0,
        horizon: int | None = None,
        **kwargs: Any,
    ) -> "Tabular":
        """Read a Gymnasium environment that publishes its model as a table ``P``.

        ``P[s][a]`` is a list of (probability, next state, reward, ends): one next state may stand
        there with several rewards, and may end the episode from one entry and not from another.
        The time limit of `gymnasium.make` is a truncation, not part of the problem: it is left
        out unless ``horizon`` is given.

        >>> lake = Tabular.from_gymnasium("FrozenLake-v1", discount=0.95, is_slippery=True)
        >>> lake.transitions.shape
        (16, 4, 3)
        """
        made = gymnasium.make(env, **kwargs) if isinstance(env, str) else env
        model: Any = getattr(made.unwrapped, "P", None)
        if model is None:
            raise ValueError(
                f"{env} has no table P; FrozenLake, CliffWalking and Taxi have one, "
                "for other environments build Tabular from arrays"
            )
        n_states, n_actions = len(model), len(model[0])
        width = max(len(model[s][a]) for s in range(n_states) for a in range(n_actions))
        table = np.zeros((n_states, n_actions, width, 4))
        for s in range(n_states):
            for a in range(n_actions):
                outcomes = model[s][a]
                table[s, a, : len(outcomes)] = outcomes
                table[s, a, len(outcomes) :, 1] = s  # impossible outcomes lead nowhere
        return cls(
            transitions=table[..., 0],
            rewards=table[..., 2],
            next_states=table[..., 1].astype(int),
            ends=table[..., 3] > 0,
            start=getattr(made.unwrapped, "initial_state_distrib", None),
            discount=discount,
            horizon=horizon,
        )

    @property
    def n_states(self) -> int:
        """The number of states."""
        return self.transitions.shape[0]

    @property
    def n_actions(self) -> int:
        """The number of actions."""
        return self.transitions.shape[1]

    @property
    def observation_space(self) -> spaces.Discrete[Any]:
        """The index of the state."""
        return spaces.Discrete(self.n_states)

    @property
    def action_space(self) -> spaces.Discrete[Any]:
        """The index of the action."""
        return spaces.Discrete(self.n_actions)

    def draw(self, key: Array, shape: tuple[int, ...] = ()) -> Noise:
        """Uniform numbers for the outcome and for the first state, a normal one for the reward."""
        return draw_noise(key, shape, n_uniform=2, n_normal=1)

    def reset(self, noise: Noise) -> tuple[TabularState, Array]:
        """Draw the first state."""
        index = sample_index(jnp.asarray(self.start, noise.uniform.dtype), noise.uniform[1])
        return TabularState(index, jnp.asarray(0)), index

    def mean_reward(self, state: TabularState, action: Array) -> Float[Array, ""]:
        """Average of the outcomes' rewards."""
        at = state.index, jnp.asarray(action)
        return jnp.sum(jnp.asarray(self.transitions)[at] * jnp.asarray(self.rewards)[at])

    def transition(
        self, state: TabularState, action: Array, noise: Noise
    ) -> Transition[TabularState]:
        """Draw one outcome and its reward."""
        action = jnp.asarray(action)
        at = state.index, action
        probabilities = jnp.asarray(self.transitions, noise.uniform.dtype)[at]
        outcome = (*at, sample_index(probabilities, noise.uniform[0]))
        index = jnp.asarray(self.next_states, state.index.dtype)[outcome]
        noise_size = jnp.asarray(self.reward_std, noise.normal.dtype)[outcome]
        terminated = jnp.asarray(self.ends)[outcome]
        if self.horizon is not None:
            terminated = terminated | (state.time + 1 >= self.horizon)
        return Transition(
            obs=state.index,
            action=action,
            reward=jnp.asarray(self.rewards)[outcome] + noise_size * noise.normal[0],
            mean_reward=self.mean_reward(state, action),
            next_obs=index,
            next_state=TabularState(index, state.time + 1),
            discount=cut_discount(self.discount, terminated),
            terminated=terminated,
            truncated=jnp.asarray(False),
            time=state.time,
        )

    def render(self, state: TabularState) -> str:
        """The index of the state."""
        return f"step {int(np.asarray(state.time))}  state {int(np.asarray(state.index))}"


def _table(name: str, value: Any, xp: Any) -> Any:
    try:
        return xp.asarray(value) * 1.0 if is_traced(value) else xp.asarray(np.asarray(value, float))
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a table of numbers; it is {value!r}") from None


def _broadcast(name: str, value: Any, shape: tuple[int, ...], xp: Any) -> Any:
    table = xp.asarray(value)
    try:
        return xp.array(xp.broadcast_to(table, shape))
    except ValueError:
        raise ValueError(
            f"{name} has the shape {table.shape}; with these transitions it must broadcast "
            f"to (states, actions, outcomes) = {shape}"
        ) from None


def _check_distribution(name: str, table: Any, axes: str) -> None:
    check_probability(name, table)
    if is_traced(table):
        return
    off = np.abs(table.sum(-1) - 1.0)
    if np.max(off, initial=0.0) > _ROUNDING:
        worst = np.unravel_index(np.argmax(off), off.shape)
        where = f" at {axes} = {tuple(int(i) for i in worst)}" if worst else ""
        raise ValueError(f"{name} sums to {table.sum(-1)[worst]}{where}; probabilities sum to 1")


def _whole(name: str, states: Any, n_states: int) -> Any:
    """States are whole numbers from 0 to n_states - 1."""
    if is_traced(states):
        return states.astype(int)
    numbers = np.asarray(states)
    wrong = numbers[(numbers < 0) | (numbers >= n_states) | (numbers != np.round(numbers))]
    if wrong.size:
        needed = f"a state is a whole number from 0 to {n_states - 1}"
        raise ValueError(f"{name} has the entry {wrong[0]}; {needed}")
    return states.astype(int)
