"""Acting on the host: streams of steps in Python environments, recorded period by period.

Every reset is seeded from (seed, learner, stream, episode) and the policy's noise from (seed,
learner, stream, period). So the state of a stream is the number of its episode and the actions
that were taken in it: whoever repeats them stands where the stream stood.

A stream asks for what it needs, a step or a new episode, and is told what the environment returned.
It does not know whether its environment stands alone (`collecting`) or steps with others
(`lockstep`).
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np
from gymnasium import Space, spaces

from downside.environments.python import HostEnvironment
from downside.policies.actions import ActionMap
from downside.policies.base import Policy
from downside.training.recorded import Recorded
from downside.training.sampling import Sampler
from downside.training.trees import copied, empty, leaves, mapped, rows, stack, writer

_RESET, _NOISE = 0, 1


class Begin(NamedTuple):
    """A stream asks for a new episode."""

    seed: int


Asking = Generator[Any, Any, Any]
"""Yields a `Begin` or an action, and is sent what `reset` or `step` of its environment returned."""


@final
class Stream:
    """One copy of an environment, acted on episode after episode by a policy of ours.

    An episode that has made ``limit`` steps is truncated, as `cutting` does it.
    """

    def __init__(
        self,
        host: HostEnvironment,
        seed: tuple[int, ...],
        *,
        online: bool,
        means: bool,
        limit: int | None = None,
    ) -> None:
        self.host, self.seed, self.online, self._means = host, seed, online, means
        self._limit = limit
        self.sample: Sampler = _no_policy
        self._to_env = to_env(host.action_space)
        self._episode = -1
        self._taken: list[Any] = []
        self._obs: Any = None
        self._pending: Any = None
        self.making: list[Any] = []
        """The actions of the period that is being recorded: how far it is."""

    def noise(self, policy: Policy, period: int, n_steps: int) -> list[Any]:
        """What the policy draws in one period; the first is for the very first action, online."""
        n_steps += self.online
        return rows(policy.draw(np.random.default_rng((*self.seed, _NOISE, period)), (n_steps,)))

    def record(self, noise: Sequence[Any]) -> Asking:
        """As many steps as there is noise, less the first of it online; gives a `Recorded`."""
        host, online, act = self.host, self.online, self._to_env
        begin, accept, known, limit = host.begin, host.accept, self._means, self._limit
        n = len(noise) - online
        seen, following = empty(host.observation_space, n), empty(host.observation_space, n)
        put_seen, put_following = writer(seen), writer(following)
        actions, rewards, terminations, truncations = [], [], [], []
        self.making = actions
        means, next_actions, begun = [], [], []
        obs, action = self._obs, self._pending
        if obs is None:
            obs = begin((yield self._anew()))
        if online and action is None:
            action = self.sample(obs, noise[0])
        time = host.time
        put_seen(0, obs)
        for i, numbers in enumerate(noise[online:]):
            if not online:
                action = self.sample(obs, numbers)
            obs, reward, terminated, truncated, mean = accept((yield act(action)))
            truncated = truncated or (host.time == limit and not terminated)
            put_following(i, obs)
            actions.append(action)
            rewards.append(reward)
            terminations.append(terminated)
            truncations.append(truncated)
            if known:
                means.append(mean)
            if online:
                action = self.sample(obs, numbers)
                next_actions.append(action)
            if terminated or truncated:
                obs = begin((yield self._anew()))
                begun.append((i + 1, obs))
                if online:
                    action = self.sample(obs, numbers)
        self._obs, self._pending = copied(obs), action
        self._taken += actions[begun[-1][0] if begun else 0 :]
        mapped(
            lambda before, after: before.__setitem__(slice(1, None), after[:-1]), seen, following
        )
        for i, first in begun:
            if i < n:
                put_seen(i, first)
        ends = np.array([i for i, _ in begun if i < n], int)
        return Recorded(
            obs=seen,
            action=np.array(actions),
            done=None,
            reward=np.array(rewards, float),
            next_obs=following,
            terminated=np.array(terminations),
            truncated=np.array(truncations),
            time=_times(n, time, ends),
            mean_reward=self._known(means),
            next_action=np.array(next_actions) if online else None,
            last=(self._obs, np.asarray(action)) if online else None,
        )

    def state(self) -> dict[str, np.ndarray]:
        """What `repeat` needs."""
        if self._obs is None:
            return {}
        found = {"episode": np.array(self._episode), "actions": np.array(self._taken)}
        found |= {f"obs/{i}": np.asarray(leaf) for i, leaf in enumerate(leaves(self._obs))}
        if self.online and self._pending is not None:
            found["pending"] = np.asarray(self._pending)
        return found

    def repeat(self, state: Mapping[str, Any], wait: int = 0) -> Asking:
        """Repeat the episode that was in progress; gives False where it comes out otherwise.

        ``wait`` steps are made before, and as many steps as there are actions whatever happens, so
        that streams that step together are there at the same time.
        """
        self._episode = int(state["episode"]) - 1
        actions, pending = state["actions"], state.get("pending")
        if pending is not None:
            self._pending = pending if pending.ndim else pending.item()
        yield from self._wait(wait)
        obs = self.host.begin((yield self._anew()))
        for i, action in enumerate(actions):
            action = action if action.ndim else action.item()
            obs, _, terminated, truncated, _ = self.host.accept((yield self._to_env(action)))
            self._taken.append(action)
            if terminated or truncated:
                yield from self._wait(len(actions) - i - 1)
                return False
        self._obs, found = copied(obs), enumerate(leaves(obs))
        return all(np.array_equal(leaf, state[f"obs/{i}"]) for i, leaf in found)

    def begin_anew(self) -> Asking:
        """Give the episode up for a new one, whose first action is yet to be chosen."""
        self._obs, self._pending = copied(self.host.begin((yield self._anew()))), None

    def forget(self, state: Mapping[str, Any]) -> None:
        """Stand before the first step of the next episode, or of the first one."""
        self._obs, self._pending, self._taken = None, None, []
        self._episode = int(state["episode"]) if state else -1

    def _wait(self, n_steps: int) -> Asking:
        """Steps of no importance."""
        space, over = self.host.action_space, True
        for _ in range(n_steps):
            if over:
                self.host.begin((yield Begin(0)))
            _, _, terminated, truncated, _ = self.host.accept((yield space.sample()))
            over = terminated or truncated

    def _anew(self) -> Begin:
        self._episode += 1
        self._taken = []
        words = np.random.SeedSequence((*self.seed, _RESET, self._episode)).generate_state(1)
        return Begin(int(words[0]))

    def _known(self, means: list[float | None]) -> np.ndarray | None:
        if not self._means:
            return None
        if None in means:
            raise ValueError(
                "info['mean_reward'] came with some steps and not with others; give it always, "
                "or never"
            )
        return np.array(means, float)


def serve(env: Any, asking: Asking) -> Any:
    """Carry out what one stream asks for in an environment of its own."""
    step, send, answer = env.step, asking.send, None
    while True:
        try:
            wanted = send(answer)
        except StopIteration as done:
            return done.value
        answer = env.reset(seed=wanted.seed) if type(wanted) is Begin else step(wanted)


def stack_records(records: Sequence[Recorded]) -> Recorded:
    """Along a new first axis."""
    found = {name: stack([vars(each)[name] for each in records]) for name in vars(records[0])}
    return Recorded(**found)


def _times(n_steps: int, time: int, begun: np.ndarray) -> np.ndarray:
    """The time in its episode of each step, where episodes begin at these steps."""
    first = np.full(n_steps, -time)
    first[begun] = begun
    return np.arange(n_steps) - np.maximum.accumulate(first)


def to_env(space: Space[Any]) -> Callable[[Any], Any]:
    """What a policy says, as one action of the space, in its types."""
    if isinstance(space, spaces.Discrete):
        start = int(space.start)
        return lambda action: np.int64(action + start)
    mapped = ActionMap.of(space)
    return lambda action: in_space(space, mapped(action))


def in_space(space: Space[Any], action: Any) -> Any:
    """An action, or a batch of them, in the types of its space."""
    if isinstance(space, spaces.Dict):
        return {key: in_space(part, action[key]) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(in_space(part, a) for part, a in zip(space.spaces, action, strict=True))
    return np.asarray(action).astype(space.dtype)[()]


def _no_policy(obs: Any, noise: Any) -> Any:
    raise ValueError("the stream has no policy yet")
