"""Acting on the host: streams of steps in Python environments, recorded period by period.

Every reset is seeded from (seed, learner, stream, episode) and the policy's noise from (seed,
learner, stream, period). So the state of a stream is the number of its episode and the actions
that were taken in it: whoever repeats them stands where the stream stood.
"""

from collections.abc import Callable, Sequence
from typing import Any, final
from warnings import warn

import numpy as np
from gymnasium import Space, spaces

from downside.environments.python import HostEnvironment
from downside.policies.actions import ActionMap
from downside.policies.base import Policy
from downside.training.recorded import Recorded
from downside.training.sampling import Sampler, sampler

_RESET, _NOISE = 0, 1


@final
class Stream:
    """One copy of an environment, stepped episode after episode by a policy of ours."""

    def __init__(
        self, host: HostEnvironment, seed: tuple[int, ...], *, online: bool, means: bool
    ) -> None:
        self.host, self.seed, self.online, self._means = host, seed, online, means
        self._to_env = to_env(host.action_space)
        self._episode = -1
        self._taken: list[Any] = []
        self._obs: Any = None
        self._pending: Any = None

    def noise(self, policy: Policy, period: int, n_steps: int) -> list[Any]:
        """What the policy draws in one period; the first is for the very first action, online."""
        n_steps += self.online
        return rows(policy.draw(np.random.default_rng((*self.seed, _NOISE, period)), (n_steps,)))

    def record(self, sample: Sampler, noise: Sequence[Any]) -> Recorded:
        """As many steps as there is noise, less the first of it online."""
        host, online, act, n = self.host, self.online, self._to_env, len(noise) - self.online
        advance, taken = host.advance, self._taken
        seen, following = empty(host.observation_space, n), empty(host.observation_space, n)
        put_seen, put_following = writer(seen), writer(following)
        actions, rewards, terminations, truncations = [], [], [], []
        times, means, next_actions = [], [], []
        obs, action = self._obs, self._pending
        if obs is None:
            obs = self._begin()
            action = sample(obs, noise[0]) if online else None
            taken = self._taken
        time = host.time
        for i, numbers in enumerate(noise[online:]):
            put_seen(i, obs)
            if not online:
                action = sample(obs, numbers)
            obs, reward, terminated, truncated, mean = advance(act(action))
            put_following(i, obs)
            actions.append(action)
            taken.append(action)
            rewards.append(reward)
            terminations.append(terminated)
            truncations.append(truncated)
            times.append(time)
            means.append(mean)
            time += 1
            if online:
                action = sample(obs, numbers)
                next_actions.append(action)
            if terminated or truncated:
                obs = self._begin()
                taken, time = self._taken, 0
                if online:
                    action = sample(obs, numbers)
        self._obs, self._pending = copied(obs), action
        return Recorded(
            obs=seen,
            action=np.array(actions),
            done=None,
            reward=np.array(rewards, float),
            next_obs=following,
            terminated=np.array(terminations),
            truncated=np.array(truncations),
            time=np.array(times),
            mean_reward=self._known(means),
            next_action=np.array(next_actions) if online else None,
            last=(self._obs, np.asarray(action)) if online else None,
        )

    def state(self) -> dict[str, np.ndarray]:
        """What `put_back` needs."""
        if self._obs is None:
            return {}
        found = {"episode": np.array(self._episode), "actions": np.array(self._taken)}
        found |= {f"obs/{i}": np.asarray(leaf) for i, leaf in enumerate(leaves(self._obs))}
        if self.online:
            found["pending"] = np.asarray(self._pending)
        return found

    def put_back(self, state: dict[str, np.ndarray]) -> bool:
        """Repeat the episode that was in progress; False, at a new one, where it comes out anew."""
        if not state:
            self._obs, self._episode = None, -1
            return True
        self._episode = int(state["episode"]) - 1
        obs, repeated = self._begin(), True
        for action in state["actions"]:
            action = action if action.ndim else action.item()
            obs, _, terminated, truncated, _ = self.host.advance(self._to_env(action))
            self._taken.append(action)
            if terminated or truncated:
                repeated = False
                break
        if repeated:
            found = enumerate(leaves(obs))
            repeated = all(np.array_equal(leaf, state[f"obs/{i}"]) for i, leaf in found)
        if not repeated:
            obs = self._begin()
        pending = state.get("pending")
        if pending is not None:
            self._pending = pending if pending.ndim else pending.item()
        self._obs = copied(obs)
        return repeated

    def _begin(self) -> Any:
        self._episode += 1
        self._taken = []
        words = np.random.SeedSequence((*self.seed, _RESET, self._episode)).generate_state(1)
        return self.host.reset(seed=int(words[0]))

    def _known(self, means: list[float | None]) -> np.ndarray | None:
        if not self._means:
            return None
        if None in means:
            raise ValueError(
                "info['mean_reward'] came with some steps and not with others; give it always, "
                "or never"
            )
        return np.array(means, float)


@final
class Host:
    """The streams of all learners: learner after learner, stream after stream."""

    def __init__(self, streams: Sequence[Sequence[Stream]], policy: Policy, period: int) -> None:
        self.streams, self._policy, self._period = streams, policy, period
        self.is_clean = True
        """Whether the streams stand where the last complete period ended."""

    def record(self, thetas: np.ndarray, period: int) -> Recorded:
        """A period of every learner: arrays (learners, streams, steps, ...)."""
        self.is_clean = False
        found: list[Recorded] = []
        for theta, streams in zip(thetas, self.streams, strict=True):
            sample = sampler(self._policy, theta)
            n_steps = self._period // len(streams)
            mine = [s.record(sample, s.noise(self._policy, period, n_steps)) for s in streams]
            found.append(stack(mine))
        return with_done(stack(found), self.streams[0][0].host.action_space)

    def state(self) -> dict[str, np.ndarray]:
        """Of all streams, by names."""
        return {
            f"{i}/{j}/{name}": value
            for i, streams in enumerate(self.streams)
            for j, stream in enumerate(streams)
            for name, value in stream.state().items()
        }

    def put_back(self, state: dict[str, np.ndarray]) -> list[tuple[int, int]]:
        """Bring every stream where it was; those that did not come out as before are named."""
        lost: list[tuple[int, int]] = []
        for i, streams in enumerate(self.streams):
            for j, stream in enumerate(streams):
                prefix = f"{i}/{j}/"
                mine = {k[len(prefix) :]: v for k, v in state.items() if k.startswith(prefix)}
                if not stream.put_back(mine):
                    lost.append((i, j))
        self.is_clean = True
        if lost:
            warn(
                "the environment did not repeat its episode from the same seed and actions, so "
                f"{len(lost)} of its episodes in progress begin anew; the run goes on, but not "
                "with the bits that it would have had without the interruption. For that, draw "
                "all random numbers from self.np_random, which reset(seed=...) seeds",
                stacklevel=4,
            )
        return lost


def with_done(recorded: Recorded, actions: Space[Any]) -> Recorded:
    """With what the environment was told."""
    return Recorded(**{**vars(recorded), "done": ActionMap.of(actions)(recorded.action)})


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


def empty(space: Space[Any], n: int) -> Any:
    """Room for ``n`` observations."""
    if isinstance(space, spaces.Dict):
        return {key: empty(part, n) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(empty(part, n) for part in space.spaces)
    return np.zeros((n, *(space.shape or ())), space.dtype)


def writer(room: Any) -> Callable[[int, Any], None]:
    """Puts an observation at a place."""
    if isinstance(room, np.ndarray):
        return room.__setitem__
    parts = room.items() if isinstance(room, dict) else enumerate(room)
    writers = [(key, writer(part)) for key, part in parts]

    def put(i: int, obs: Any) -> None:
        for key, write in writers:
            write(i, obs[key])

    return put


def copied(obs: Any) -> Any:
    """So that the environment may reuse its arrays."""
    if isinstance(obs, dict):
        return {key: copied(part) for key, part in obs.items()}
    if isinstance(obs, tuple):
        return tuple(copied(part) for part in obs)
    return np.array(obs)[()]


def leaves(obs: Any) -> list[Any]:
    """The arrays of an observation, in order."""
    if isinstance(obs, dict):
        return [leaf for part in obs.values() for leaf in leaves(part)]
    if isinstance(obs, tuple):
        return [leaf for part in obs for leaf in leaves(part)]
    return [obs]


def rows(noise: Any) -> list[Any]:
    """Step by step what was drawn for all."""
    if isinstance(noise, tuple):
        return list(zip(*(rows(part) for part in noise), strict=True))
    return noise.tolist() if noise.ndim == 1 else list(noise)


def stack(records: Sequence[Any]) -> Any:
    """Records, or trees of them, along a new first axis."""
    first = records[0]
    if first is None:
        return None
    if isinstance(first, Recorded):
        return Recorded(**{k: stack([vars(r)[k] for r in records]) for k in vars(first)})
    if isinstance(first, dict):
        return {key: stack([r[key] for r in records]) for key in first}
    if isinstance(first, tuple):
        return tuple(stack(parts) for parts in zip(*records, strict=True))
    return np.stack(records)
