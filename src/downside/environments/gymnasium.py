"""Our environments as Gymnasium's: one copy, or many that step in one compiled call."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, final

import gymnasium
import jax
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from downside.checks import check_choice, check_count
from downside.environments.bandit import Bandit
from downside.environments.base import Environment
from downside.environments.consumption import Consumption
from downside.environments.copies import Copy, Outcome, Stream, begin, pick, step
from downside.environments.portfolio import Portfolio
from downside.environments.tree import Tree

_REGISTERED = {kind.__name__: kind for kind in (Tree, Bandit, Portfolio, Consumption)}

# The environment is an argument: instances that differ in their numbers share what is compiled.
_begin_one = jax.jit(begin)
_step_one = jax.jit(partial(step, autoreset_mode=AutoresetMode.DISABLED))
_begin_all = jax.jit(jax.vmap(begin, in_axes=(None, 0)))
_pick_all = jax.jit(jax.vmap(pick))


@partial(jax.jit, static_argnames="autoreset_mode")
def _step_all(
    env: Environment[Any], copies: Copy, actions: Any, autoreset_mode: AutoresetMode
) -> tuple[Copy, Outcome]:
    def step_copy(copy: Copy, action: Any) -> tuple[Copy, Outcome]:
        return step(env, copy, action, autoreset_mode)

    return jax.vmap(step_copy)(copies, actions)


@final
class GymnasiumEnv(gymnasium.Env[Any, Any]):
    """One of our environments (or the name of one of the paper's four, and its parameters).

    ``info["mean_reward"]`` is r(s, a) where it is known exactly. A seed determines everything that
    follows it: episode k and step t always meet the same random numbers.

    >>> env = GymnasiumEnv("Consumption", default_probability=0.0, render_mode="ansi")
    >>> obs, info = env.reset(seed=7)
    >>> obs, reward, terminated, truncated, info = env.step([0.0, 0.1])
    >>> env.render(), round(reward, 6)
    ('step 1/200  wealth 0.9002', 0.1)
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012 (as in the base class)

    def __init__(
        self,
        environment: Environment[Any] | str,
        *,
        render_mode: str | None = None,
        **parameters: Any,
    ) -> None:
        self.environment = _build(environment, parameters)
        self.observation_space = self.environment.observation_space
        self.action_space = self.environment.action_space
        self.log_returns = self.environment.log_returns
        self.render_mode = _check_render_mode(render_mode)
        self._copy: Copy | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start the next episode of the stream, or the first one of the stream of ``seed``."""
        super().reset(seed=seed)
        if self._copy is None or seed is not None:
            zero = np.asarray(0, np.uint32)
            stream = Stream(_seed_words(self.np_random), zero, zero)
        else:
            stream = self._copy.stream.next_episode()
        self._copy = copy = _begin_one(self.environment, stream)
        return _to_space(self.observation_space, copy.obs), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Make one step."""
        if self._copy is None or self._copy.is_over:
            raise ResetNeeded("no episode is running; call reset() before step()")
        legal = _check_action(self.action_space, action)
        self._copy, outcome = _step_one(self.environment, self._copy, legal)
        outcome = jax.tree.map(np.asarray, outcome)
        return (
            _to_space(self.observation_space, outcome.final_obs),
            float(outcome.reward),
            bool(outcome.terminated),
            bool(outcome.truncated),
            {} if outcome.mean_reward is None else {"mean_reward": float(outcome.mean_reward)},
        )

    def render(self) -> str | None:
        """Describe the state in a line, with ``render_mode="ansi"``."""
        if self.render_mode is None:
            gymnasium.logger.warn('render() shows nothing; make it with render_mode="ansi"')
            return None
        if self._copy is None:
            raise ResetNeeded("no episode is running; call reset() before render()")
        return self.environment.render(self._copy.state)


@final
class GymnasiumVectorEnv(VectorEnv[Any, Any, np.ndarray]):
    """Many copies of one of our environments, stepped in one compiled call.

    ``autoreset_mode`` is one of Gymnasium's: "NextStep" (the step after an end resets and ignores
    the action), "SameStep" (an end resets at once; ``info["final_obs"]`` has the last observation)
    or "Disabled" (reset with ``options={"reset_mask": ...}``).

    Copy i takes stream i of the seed, and copy 0 does what `GymnasiumEnv` does with this seed.
    Given one seed per copy, each does what `GymnasiumEnv` does with its own.

    >>> envs = GymnasiumVectorEnv("Tree", num_envs=3, autoreset_mode="SameStep")
    >>> obs, info = envs.reset(seed=7)
    >>> obs, rewards, terminated, truncated, info = envs.step([0, 1, 1])
    >>> obs.tolist(), rewards.tolist()
    ([1, 2, 2], [-1.0, 1.0, 1.0])
    """

    def __init__(
        self,
        environment: Environment[Any] | str,
        num_envs: int = 1,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
        **parameters: Any,
    ) -> None:
        check_count("num_envs", num_envs, least=1)
        if not isinstance(autoreset_mode, AutoresetMode):
            allowed = tuple(str(mode.value) for mode in AutoresetMode)
            check_choice("autoreset_mode", autoreset_mode, allowed)
        self.environment = _build(environment, parameters)
        self.log_returns = self.environment.log_returns
        self.num_envs = num_envs
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {**GymnasiumEnv.metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = _check_render_mode(render_mode)
        self.single_observation_space = self.environment.observation_space
        self.single_action_space = self.environment.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._copies: Copy | None = None

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start the next episode of every copy, or of those in ``options["reset_mask"]``."""
        mask = self._reset_mask(options or {})
        seeds = None
        if isinstance(seed, Sequence | np.ndarray):
            seed, seeds = None, tuple(seed)
        super().reset(seed=seed)
        streams = self._streams(is_new=seed is not None, seeds=seeds)
        copies = _begin_all(self.environment, streams)
        if self._copies is not None:
            copies = _pick_all(mask, copies, self._copies)
        self._copies = copies
        return _to_space(self.observation_space, copies.obs), {}

    def step(
        self, actions: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Make one step of every copy."""
        if self._copies is None:
            raise ResetNeeded("no episode is running; call reset() before step()")
        if self.autoreset_mode is AutoresetMode.DISABLED and np.any(self._copies.is_over):
            over = np.flatnonzero(self._copies.is_over).tolist()
            raise ResetNeeded(
                f"the episodes of the copies {over} are over; reset them before the next step: "
                'reset(options={"reset_mask": terminated | truncated})'
            )
        legal = _check_action(self.action_space, actions)
        copies, outcomes = _step_all(self.environment, self._copies, legal, self.autoreset_mode)
        self._copies = copies
        outcomes = jax.tree.map(np.asarray, outcomes)
        return (
            _to_space(self.observation_space, copies.obs),
            np.array(outcomes.reward, np.float64),
            np.array(outcomes.terminated),
            np.array(outcomes.truncated),
            self._info(outcomes),
        )

    def render(self) -> tuple[str, ...] | None:
        """Describe each copy in a line, with ``render_mode="ansi"``."""
        if self.render_mode is None:
            gymnasium.logger.warn('render() shows nothing; make it with render_mode="ansi"')
            return None
        if self._copies is None:
            raise ResetNeeded("no episode is running; call reset() before render()")
        leaves, structure = jax.tree.flatten(jax.tree.map(np.asarray, self._copies.state))
        states = (jax.tree.unflatten(structure, numbers) for numbers in zip(*leaves, strict=True))
        return tuple(self.environment.render(state) for state in states)

    def _streams(self, *, is_new: bool, seeds: tuple[int | None, ...] | None) -> Stream:
        """The streams of the next episodes: new ones, or those that run, one episode on."""
        n = self.num_envs
        if is_new or self._copies is None:
            words = np.tile(_seed_words(self.np_random), (n, 1))
            stream = Stream(words, np.arange(n, dtype=np.uint32), np.zeros(n, np.uint32))
        else:
            stream = jax.tree.map(np.array, self._copies.stream.next_episode())
        if seeds is not None and len(seeds) != n:
            raise ValueError(
                f"seed has {len(seeds)} entries for {n} copies; give one for all, or one per copy"
            )
        for i, seed in enumerate(seeds or ()):
            if seed is not None:
                stream.seed[i] = _seed_words(seeding.np_random(int(seed))[0])
                stream.index[i] = stream.episode[i] = 0
        return stream

    def _reset_mask(self, options: Mapping[str, Any]) -> np.ndarray:
        mask = np.asarray(options.get("reset_mask", np.ones(self.num_envs, bool)))
        if mask.shape != (self.num_envs,) or mask.dtype != np.bool_:
            raise ValueError(
                f"reset_mask has the shape {mask.shape} and the type {mask.dtype}; "
                f"it must be ({self.num_envs},) and bool, one entry per copy"
            )
        if self._copies is None and not mask.all():
            raise ResetNeeded("no episode is running; reset all copies before some of them")
        return mask

    def _info(self, outcomes: Outcome) -> dict[str, Any]:
        """Gymnasium's form: under ``_name`` stands which copies have a ``name``.

        A copy that was reset in the step of its end has moved what it had to ``final_info``.
        """
        ended = np.asarray(outcomes.terminated | outcomes.truncated)
        is_final = ended & (self.autoreset_mode is AutoresetMode.SAME_STEP)
        has_stepped = np.asarray(outcomes.has_stepped)
        info = _masked_mean_reward(outcomes, has_stepped & ~is_final)
        if is_final.any():
            final_obs = np.full(self.num_envs, None, object)
            for i in np.flatnonzero(is_final):
                final_obs[i] = _to_space(self.single_observation_space, outcomes.final_obs[i])
            info |= {"final_obs": final_obs, "_final_obs": is_final}
            info["final_info"] = _masked_mean_reward(outcomes, is_final)
            info["_final_info"] = is_final.copy()
        return info


def _masked_mean_reward(outcomes: Outcome, mask: np.ndarray) -> dict[str, Any]:
    if outcomes.mean_reward is None or not mask.any():
        return {}
    known = np.where(mask, outcomes.mean_reward, 0.0).astype(np.float64)
    return {"mean_reward": known, "_mean_reward": mask.copy()}


def _build(environment: Environment[Any] | str, parameters: Mapping[str, Any]) -> Environment[Any]:
    if isinstance(environment, str):
        check_choice("environment", environment, tuple(_REGISTERED))
        return _REGISTERED[environment](**parameters)
    if parameters:
        raise ValueError(
            f"{type(environment).__name__} is built already; "
            f"give {', '.join(parameters)} to its constructor"
        )
    return environment


def _check_render_mode(render_mode: str | None) -> str | None:
    if render_mode is not None:
        check_choice("render_mode", render_mode, ("ansi",))
    return render_mode


def _seed_words(generator: np.random.Generator) -> np.ndarray:
    return generator.integers(2**32, size=2, dtype=np.uint32)


def _to_space(space: spaces.Space[Any], obs: Any) -> Any:
    """A copy in the type that the space declares."""
    return int(obs) if isinstance(space, spaces.Discrete) else np.array(obs, space.dtype)


def _check_action(space: spaces.Space[Any], action: Any) -> np.ndarray:
    """Refuse what no environment can read; a Box is no limit, the environment clips."""
    value = np.asarray(action)
    if isinstance(space, spaces.Box):
        needed = f"numbers of the shape {space.shape}, none of them NaN"
        is_number = value.dtype.kind in "iuf"
        is_legal = is_number and value.shape == space.shape and not np.isnan(value).any()
    else:
        needed = f"an element of {space}"
        if isinstance(space, spaces.Discrete):
            needed = f"a whole number from {space.start} to {space.start + space.n - 1}"
        is_legal = space.contains(value)
    if not is_legal:
        raise ValueError(f"action is {action!r}; it must be {needed}")
    return value.astype(space.dtype)
