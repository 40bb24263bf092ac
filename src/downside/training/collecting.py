"""The streams of all learners, recorded period by period and brought back where they were."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, final, runtime_checkable
from warnings import warn

import numpy as np

from downside.environments.misfits import WIDER, outside_by
from downside.environments.misfits import leaves as leaf_spaces
from downside.policies.actions import ActionMap
from downside.policies.base import Policy
from downside.training.recorded import Recorded
from downside.training.sampling import Sampler, sampler
from downside.training.streams import Stream, serve, stack_records
from downside.training.trees import leaves


@runtime_checkable
class Streams(Protocol):
    """The streams of one learner."""

    streams: Sequence[Stream]
    keeps_place: bool

    def record(self, sample: Sampler, policy: Policy, period: int, n_steps: int) -> Recorded:
        """A period of every stream: arrays (streams, steps, ...)."""
        ...

    def put_back(self, states: Sequence[Mapping[str, Any]]) -> list[int]:
        """Bring every stream where it was; those that did not come out as before are named."""
        ...


@final
class Apart:
    """The streams of one learner, each with an environment of its own."""

    keeps_place = True

    def __init__(self, streams: Sequence[Stream]) -> None:
        self.streams = streams

    def record(self, sample: Sampler, policy: Policy, period: int, n_steps: int) -> Recorded:
        """A period of every stream, one after the other."""
        found: list[Recorded] = []
        for stream in self.streams:
            stream.sample = sample
            asking = stream.record(stream.noise(policy, period, n_steps))
            found.append(serve(stream.host.env, asking))
        return stack_records(found)

    def put_back(self, states: Sequence[Mapping[str, Any]]) -> list[int]:
        """Bring every stream where it was; those that did not come out as before are named."""
        lost: list[int] = []
        for i, (stream, state) in enumerate(zip(self.streams, states, strict=True)):
            stream.forget(state)
            if state and not serve(stream.host.env, stream.repeat(state)):
                serve(stream.host.env, stream.begin_anew())
                lost.append(i)
        return lost


@final
class Host:
    """The streams of all learners: learner after learner, stream after stream."""

    def __init__(self, learners: Sequence[Streams], policy: Policy, period: int) -> None:
        self.learners, self._policy, self._period = learners, policy, period
        self.is_clean = True
        """Whether the streams stand where the learners do, whose owner says so."""
        self._has_warned = False
        self.latest: Recorded | None = None
        """The period that was recorded last: arrays (learners, streams, steps, ...)."""

    def record(self, thetas: np.ndarray, period: int) -> Recorded:
        """A period of every learner: arrays (learners, streams, steps, ...)."""
        self.is_clean = False
        found: list[Recorded] = []
        for theta, mine in zip(thetas, self.learners, strict=True):
            n_steps = self._period // len(mine.streams)
            sample = sampler(self._policy, theta)
            found.append(mine.record(sample, self._policy, period, n_steps))
        recorded = stack_records(found)
        for stream in self._streams:
            stream.making = []
        self._check_bounds(recorded)
        told = ActionMap.of(self.learners[0].streams[0].host.action_space)
        self.latest = replace(recorded, done=told(recorded.action))
        return self.latest

    @property
    def acted(self) -> int:
        """Steps of a learner in the period that is being recorded, in the mean over learners."""
        return sum(len(stream.making) for stream in self._streams) // len(self.learners)

    @property
    def _streams(self) -> list[Stream]:
        return [stream for mine in self.learners for stream in mine.streams]

    def state(self) -> dict[str, np.ndarray]:
        """Of all streams, by names."""
        return {
            f"{i}/{j}/{name}": value
            for i, mine in enumerate(self.learners)
            for j, stream in enumerate(mine.streams)
            for name, value in stream.state().items()
        }

    def put_back(self, state: dict[str, np.ndarray]) -> list[tuple[int, int]]:
        """Bring every stream where it was; those that did not come out as before are named."""
        lost: list[tuple[int, int]] = []
        for i, mine in enumerate(self.learners):
            states: list[dict[str, np.ndarray]] = []
            for j in range(len(mine.streams)):
                prefix = f"{i}/{j}/"
                named = {k[len(prefix) :]: v for k, v in state.items() if k.startswith(prefix)}
                states.append(named)
            lost += [(i, j) for j in mine.put_back(states)]
        self.is_clean = True
        if lost:
            warn(self._told(len(lost)), stacklevel=4)
        return lost

    def _check_bounds(self, recorded: Recorded) -> None:
        """Say once where observations leave their space."""
        if self._has_warned:
            return
        space = self.learners[0].streams[0].host.observation_space
        for obs in (recorded.obs, recorded.next_obs):
            parts = zip(leaf_spaces(space), leaves(obs), strict=True)
            over = max(float(np.max(outside_by(part, found), initial=0.0)) for part, found in parts)
            if over > 0.0:
                warn(
                    f"observations lie outside their Box, by up to {over:.3g}; {WIDER}",
                    stacklevel=5,
                )
                self._has_warned = True
                return

    def _told(self, n_lost: int) -> str:
        ends = (
            f"so {n_lost} of its episodes in progress begin anew; the run goes on, but not with "
            "the bits that it would have had without the interruption. For that, "
        )
        if self.learners[0].keeps_place:
            return (
                "the environment did not repeat its episode from the same seed and actions, "
                f"{ends}draw all random numbers from self.np_random, which reset(seed=...) seeds"
            )
        return (
            "the vector environment cannot reset single copies, "
            f'{ends}let reset take one seed per copy and options={{"reset_mask": ...}}, or use '
            "gymnasium.vector.SyncVectorEnv"
        )
