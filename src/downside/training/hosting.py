"""What drives learners on Python environments: act for a period, learn from it, go on."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import Space

from downside.agents.actor_critic import ActorCritic
from downside.environments.misfits import MOST_REWARD
from downside.environments.python import HostEnvironment
from downside.environments.vectors import HostVector
from downside.policies.base import Policy
from downside.training.collecting import Apart, Host, Streams
from downside.training.host import HostAct
from downside.training.learner import where
from downside.training.lockstep import Together
from downside.training.recorded import learn_recorded
from downside.training.run import Report, Settings
from downside.training.sampling import sampler
from downside.training.streams import Stream, to_env


@final
class Hosting:
    """Where copies of a Python environment come from, and what it is called.

    ``make`` is None where there is an instance only: ``first``, alone or a vector environment.
    """

    def __init__(
        self,
        first: HostEnvironment | HostVector,
        make: Callable[[], HostEnvironment | HostVector] | None,
        named: dict[str, Any],
        *,
        means: bool,
    ) -> None:
        self.first, self.make, self.named, self.means = first, make, named, means

    @property
    def num_envs(self) -> int | None:
        """The copies of a vector environment."""
        return self.first.num_envs if isinstance(self.first, HostVector) else None

    def copies(self, n: int) -> list[Any]:
        """The first one and n - 1 more."""
        if n > 1 and self.make is None:
            raise ValueError(
                f"{n} copies of the environment are needed, and what was given is one; "
                "give its id, or a function that makes one, such as lambda: MyEnv()"
            )
        found = [self.first, *(self.make() for _ in range(n - 1) if self.make)]
        inside = [one.envs if isinstance(one, HostVector) else one.env for one in found]
        if len({id(each) for each in inside}) < n:
            raise ValueError(
                f"{n} copies of the environment are needed, and the function gives one and the "
                "same each time; let it make a new one, such as lambda: MyEnv()"
            )
        return found

    def open(self, settings: Settings, n_bounds: int, n_seeds: int, seed: int) -> Host:
        """Streams for every bound and seed; every bound meets the same noise."""
        n_streams, n_learners = settings.env.n_streams, n_bounds * n_seeds
        online = isinstance(settings, ActorCritic)
        limit = None if isinstance(settings, ActorCritic) else settings.episode_limit
        is_vector = self.num_envs is not None
        copies = iter(self.copies(n_learners * (1 if is_vector else n_streams)))
        learners: list[Streams] = []
        for i in range(n_learners):
            vector = next(copies) if is_vector else None
            hosts = vector.copies if vector else [next(copies) for _ in range(n_streams)]
            mine = [
                Stream(host, (seed, i % n_seeds, j), online=online, means=self.means, limit=limit)
                for j, host in enumerate(hosts)
            ]
            learners.append(Together(vector, mine) if vector else Apart(mine))
        return Host(learners, settings.policy, settings.period)

    def for_evaluation(self) -> tuple[HostEnvironment, bool]:
        """An environment to act in; whether it is one that learning has no use for."""
        made = self.first if self.make is None else self.make()
        return alone(made), self.make is not None


def alone(host: HostEnvironment | HostVector) -> HostEnvironment:
    """One copy of an environment."""
    return host.copies[0] if isinstance(host, HostVector) else host


def acting(policy: Policy, theta: Any, actions: Space[Any], *, deterministic: bool) -> HostAct:
    """(observation, generator) -> an action of the space, sampled or the most likely one."""
    sample, told = sampler(policy, np.asarray(theta)), to_env(actions)

    def act(obs: Any, rng: np.random.Generator) -> Any:
        return told(policy.mode(theta, obs) if deterministic else sample(obs, policy.draw(rng)))

    return act


PATIENCE = 20_000
"""Steps after which an episode should have ended, where sums have no other end."""


def advance_on(host: Host) -> Any:
    """A function that makes periods ``first`` to ``last`` of every learner, as `run.advance`."""

    def advance(
        settings: Settings, learners: Any, keys: Any, first: int, last: int, *, fresh: bool = True
    ) -> tuple[Any, Report]:
        report = None
        for period in range(first, last):
            recorded = host.record(np.asarray(learners.theta), period)
            _check_ends(settings, recorded, np.asarray(learners.episodes), period)
            _check_size(recorded.reward, learners.theta.dtype)
            learners, report = learn_recorded(
                settings, learners, recorded, fresh=fresh and period == first
            )
        assert report is not None, "at least one period is asked for"
        return learners, report

    return advance


def without_episodes(learners: Any, lost: list[tuple[int, int]]) -> Any:
    """Learners whose episodes in these streams begin anew."""
    if not lost:
        return learners
    where_lost = np.zeros(np.asarray(learners.episode.time).shape, bool)
    where_lost[tuple(np.transpose(lost))] = True

    def stream(episode: Any, lost: Any) -> Any:
        anew = replace(
            episode,
            weights=jnp.ones_like(episode.weights),
            sums=jnp.zeros_like(episode.sums),
            total=jnp.zeros_like(episode.total),
            time=jnp.zeros_like(episode.time),
        )
        return where(lost, anew, episode)

    def one(learner: Any, lost: Any) -> Any:
        return replace(learner, episode=jax.vmap(stream)(learner.episode, lost))

    return jax.vmap(one)(learners, where_lost)


def _check_size(rewards: np.ndarray, dtype: Any) -> None:
    """Refuse rewards whose squares do not fit the width of the run."""
    most = float(np.max(np.abs(rewards), initial=0.0))
    if most > MOST_REWARD and dtype == np.float32:
        raise ValueError(
            f"rewards are up to {most:.3g} in size, which float32 has no room for; give them in "
            'other units, so that they are of a size about 1, or precision="float64"'
        )


def _check_ends(settings: Settings, recorded: Any, episodes: np.ndarray, period: int) -> None:
    """Refuse sums without an end, and bounds on episodes that never end."""
    env = settings.env
    if env.horizon is not None:
        return
    cut = recorded.truncated & ~recorded.terminated
    if float(np.min(np.asarray(env.discount))) == 1.0 and cut.any():
        raise ValueError(
            f"episodes are cut short after {int(recorded.time[cut].max()) + 1} steps and the "
            "discount is 1, so the sum of what follows has no end; give horizon= if the limit "
            "belongs to the problem, else a discount below 1"
        )
    steps = (period + 1) * settings.period
    ended = (recorded.terminated | recorded.truncated).any()
    if steps >= PATIENCE and episodes.max(initial=0) == 0 and not ended:
        needs_ends = settings.n_constraints > 0
        if needs_ends or float(np.min(np.asarray(env.discount))) == 1.0:
            why = "the risk of whole episodes is bounded" if needs_ends else "the discount is 1"
            raise ValueError(
                f"no episode has ended in {steps} steps, and {why}; end episodes with a limit, "
                "such as gymnasium.wrappers.TimeLimit(env, 1000), and give discount=0.99 if the "
                "limit is not part of the problem"
            )
