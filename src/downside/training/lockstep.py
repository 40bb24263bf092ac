"""Streams in one vector environment: each asks for itself, and all steps are made in one call."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, final

from gymnasium.vector import AutoresetMode

from downside.environments.vectors import HostVector
from downside.policies.base import Policy
from downside.training.recorded import Recorded
from downside.training.sampling import Sampler
from downside.training.streams import Asking, Begin, Stream, stack_records


@final
class Together:
    """The streams of one learner, which step together.

    Where a vector environment cannot reset single copies and spends a call on each reset
    (NEXT_STEP), its copies fall apart: those that are ahead begin their next period early, with the
    policy of this one, so that no step is lost.
    """

    def __init__(self, vector: HostVector, streams: Sequence[Stream]) -> None:
        self.vector, self.streams = vector, streams
        self.keeps_place = vector.resets_each
        self._is_running = False
        self._asking: dict[int, Asking] = {}
        self._wanted: dict[int, Any] = {}
        self._done: list[list[Any]] = [[] for _ in streams]
        vector.action_space.seed(0)
        self._any_action = vector.action_space.sample()

    def record(self, sample: Sampler, policy: Policy, period: int, n_steps: int) -> Recorded:
        """A period of every stream."""

        def further(i: int) -> Asking:
            stream = self.streams[i]
            return stream.record(stream.noise(policy, period + len(self._done[i]), n_steps))

        for i, stream in enumerate(self.streams):
            stream.sample = sample
            if i not in self._asking and not self._done[i]:
                self._ask(i, further(i))
        while not all(self._done):
            self._answer(further)
        return stack_records([done.pop(0) for done in self._done])

    def put_back(self, states: Sequence[Mapping[str, Any]]) -> list[int]:
        """Bring every stream where it was; those that did not come out as before are named."""
        self._asking, self._wanted, self._is_running = {}, {}, False
        for stream, state, done in zip(self.streams, states, self._done, strict=True):
            stream.forget(state)
            done.clear()
        begun = [i for i, state in enumerate(states) if state]
        if not self.keeps_place:
            return begun
        lengths = {i: len(states[i]["actions"]) for i in begun}
        for i, length in lengths.items():
            self._ask(i, self.streams[i].repeat(states[i], max(lengths.values()) - length))
        self._finish()
        lost = [i for i in begun if not self._done[i].pop()]
        for i in lost:
            self._ask(i, self.streams[i].begin_anew())
        self._finish()
        for i in lost:
            self._done[i].clear()
        return lost

    def _finish(self) -> None:
        while self._asking:
            self._answer()

    def _ask(self, i: int, asking: Asking) -> None:
        self._asking[i] = asking
        self._tell(i, None)

    def _tell(self, i: int, answer: Any) -> None:
        try:
            self._wanted[i] = self._asking[i].send(answer)
        except StopIteration as done:
            self._done[i].append(done.value)
            del self._asking[i]
            self._wanted.pop(i, None)

    def _answer(self, further: Callable[[int], Asking] | None = None) -> None:
        """Begin episodes where that is wanted and takes no step; else make a step of all copies."""
        begins = {i: each.seed for i, each in self._wanted.items() if type(each) is Begin}
        if begins and not self._reset_is_a_step:
            answers = self._begin(begins)
        else:
            self._check_over(begins)
            answers = self._step(further)
        for i, answer in answers.items():
            self._tell(i, answer)

    @property
    def _begin_by_themselves(self) -> bool:
        """Whether the copies begin their episodes, not we."""
        return self._is_running and not self.vector.resets_each

    @property
    def _reset_is_a_step(self) -> bool:
        """Whether a copy begins its next episode in a step of all copies, instead of acting."""
        return self._begin_by_themselves and self.vector.mode is AutoresetMode.NEXT_STEP

    def _begin(self, seeds: dict[int, int]) -> dict[int, Any]:
        """Episodes that begin at once, or did so in the step that ended the last one."""
        if self._begin_by_themselves:
            self._check_over(seeds)
            return {i: self.vector.shown(i) for i in seeds}
        self._is_running = True
        return self.vector.reset(seeds)

    def _check_over(self, begins: Iterable[int]) -> None:
        """Refuse to begin what a copy that begins by itself goes on with."""
        if not all(self.vector.is_over(i) for i in begins):
            raise ValueError(
                f"a horizon or an episode_limit cuts episodes that {self.vector.envs} goes on "
                "with, since it cannot reset single copies; give it this limit, or leave horizon= "
                "out, and episode_limit= too"
            )

    def _step(self, further: Callable[[int], Asking] | None) -> dict[int, Any]:
        n = len(self.streams)
        if further is not None:
            for i in range(n):
                if i not in self._wanted:
                    self._ask(i, further(i))
        wanted = [self._wanted.get(i) for i in range(n)]
        idle = (type(None), Begin)
        actions = [self._any_action if isinstance(each, idle) else each for each in wanted]
        results = self.vector.step(actions)
        return {i: results[i] for i in self._wanted}
