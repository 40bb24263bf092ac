"""What NAC, RCPO and NRCPO make: learners that are trained, kept, judged and summed up together."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, final

import jax
import numpy as np
from jax.tree_util import Partial

from downside.checks import check_count
from downside.environments.misfits import check_observations
from downside.evaluation import Evaluation, Evaluations
from downside.evaluation.several import lead
from downside.export import NumpyPolicy, act
from downside.judging import evaluate_hosted, evaluate_ours, judged_by
from downside.policies.actions import ActionMap
from downside.signals import Constraint, as_target
from downside.summaries import average, names_of, summarise
from downside.training import run
from downside.training.callbacks import check_callback, says_stop
from downside.training.describing import describe
from downside.training.failures import explain, told_of_functions
from downside.training.hosting import Hosting, advance_on, without_episodes
from downside.training.interrupts import Interrupts
from downside.training.keeping import Keeper, Saved, stacked, thinned
from downside.training.mean_reward import misfit, predicted
from downside.training.pacing import Pace
from downside.training.progress import TrainingBar
from downside.training.recorded import start_recorded
from downside.training.settling import shown
from downside.training.streams import in_space

Precision = Literal["float32", "float64"]


@final
class Agent:
    """Learners for every threshold and seed, trained together.

    Arrays over learners come in the order (threshold, seed). Where settings have several values, it
    is (combination, threshold, seed), the last of the settings changing fastest: ``variants`` has
    what a combination has of its own, once for each entry of ``constraints``, ``labels`` in words.
    """

    def __init__(
        self,
        settings: Sequence[run.Settings],
        constraints: Sequence[tuple[Constraint, ...]],
        n_seeds: int,
        seed: int,
        precision: Precision = "float32",
        folder: str | Path | None = None,
        keep: int = 3,
        host: Hosting | None = None,
        recipe: dict[str, Any] | None = None,
        variants: Sequence[dict[str, Any]] = (),
    ) -> None:
        self.env, self.policy = settings[0].env, settings[0].policy
        self.constraints, self.n_seeds, self.seed = list(constraints), n_seeds, seed
        self.variants = list(variants) or [{} for _ in settings]
        self.labels = names_of(self.variants)
        self.precision: Precision = precision
        seeds = np.tile(np.arange(n_seeds), len(settings))  # every threshold meets the same noise
        with self._in_precision(), told_of_functions():
            self._settings = run.stack([one for one in settings for _ in range(n_seeds)])
            self._keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(seed), i))(seeds)
            start = run.start_all if host is None else start_recorded
            learners = start(self._settings, self._keys)
        self._state = Saved(learners, reports=[], periods=0, complete=True, seconds=0.0)
        self._hosting = host
        self._host = None if host is None else host.open(settings[0], len(settings), n_seeds, seed)
        self._warm: tuple[int, float] | None = None  # periods and seconds when all was compiled
        self._asked = 0  # periods; a program that is run again asks for the same ones once more
        self._keeper = None
        self._rng = np.random.default_rng((seed, 1))  # of predict
        self._recipe = recipe
        self._identity = describe(
            {
                "settings": settings[0],
                "constraints": list(constraints),
                "seed": seed,
                "n_seeds": n_seeds,
                "precision": precision,
                "platform": jax.default_backend(),
                "devices": len(jax.devices()),
            }
        )
        if any(self.variants):
            self._identity["variants"] = describe(self.variants)
        if host is not None:
            self._identity["environment"] = describe(host.named)
        if folder is not None:
            self._keeper = Keeper(folder, self._identity, keep=keep)
            with self._in_precision():
                found = self._keeper.find(learners)
                if found is not None:
                    self._go_on_from(found)

    @property
    def steps(self) -> int:
        """Steps that each learner has made."""
        return self._state.periods * self._settings.period

    @property
    def theta(self) -> np.ndarray:
        """The parameters of every learner's policy (learners, P).

        Where entropy fades and a bound has bound lately, they are an average of the last policies;
        records and `summary` are of those that acted.
        """
        bounded = np.any(np.isfinite(self._thresholds), axis=1)
        return shown(self._state.learners, np.asarray(bounded))

    @property
    def records(self) -> run.Report:
        """What happened, chunk by chunk: arrays (chunks, learners, ...)."""
        return stacked(self._state.reports)

    def learn(
        self,
        total_timesteps: int,
        progress_bar: bool = True,
        callback: Any = None,
    ) -> "Agent":
        """Train every learner for so many steps more, rounded up to whole policy periods.

        An agent with a folder that holds some of these steps already makes the rest of them, so
        that a program that was stopped can simply be run again. ``callback`` gets the record of
        every policy update, and stops the training by returning False. Ctrl-C finishes the chunk,
        saves, and stops; a second one stops at once. After that, or after an error, the same call
        makes the rest.
        """
        check_count("total_timesteps", total_timesteps, least=1)
        check_callback(callback)
        begin, period = self._asked, self._settings.period
        end = begin + -(-total_timesteps // period)
        if self._state.periods >= end:
            self._asked = end
            return self
        done = (self._state.periods - begin) * period
        host = self._host
        acted = None if host is None else (lambda: host.acted)
        size, bounds = (end - begin) * period, self._thresholds
        bar = TrainingBar(size, done, bounds, shown=progress_bar, acted=acted)
        kept = self._keeper or nullcontext()
        stopped = False
        if self._host is not None and not self._host.is_clean:
            self._go_on_from(self._state)
        self._warm = None
        with kept, bar, Interrupts() as interrupts, self._in_precision(), told_of_functions():
            pace = Pace() if self._keeper is None else self._keeper.pace
            if self._keeper is not None:
                self._keeper.check(self.steps)
                self._save(end)
            for chunk in run.drive(
                self._settings,
                self._state.learners,
                self._keys,
                begin,
                end,
                at=self._state.periods,
                fresh=self._state.complete,
                one_by_one=callback is not None,
                in_blocks=self._host is None,
                chunk_seconds=lambda: pace.chunk_seconds,
                advance=run.advance if self._host is None else advance_on(self._host),
            ):
                self._take(chunk)
                bar.advance((chunk.period - begin) * period, chunk.report, chunk.seconds)
                stopped = callback is not None and says_stop(callback(chunk.report))
                interrupted = interrupts.seen is not None
                last = stopped or interrupted or chunk.period == end
                if self._keeper is not None and (last or pace.is_due):
                    self._save(end, chunk.report)
                if stopped or interrupted:
                    break
        if interrupts.seen is not None and self._state.periods < end:
            again = f"saved in {self._keeper.path}; run it again" if self._keeper else "learn again"
            bar.say(f"stopped at step {self.steps:,}; {again} to go on")
            interrupts.stop(f"stopped at step {self.steps}")
        self._asked = self._state.periods if stopped else end
        return self

    def predict(
        self,
        obs: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[Any, Any]:
        """An action for one observation or a batch, of the first learner's policy; and the state.

        The bound holds for the sampled policy, which is the default here; ``deterministic`` takes
        the most likely action. There is no state: what came is given back.
        """
        check_observations(self.observation_space, obs)
        space = self.action_space
        mapped = ActionMap.of(space)
        action = act(self.policy, self.theta[0], mapped, obs, deterministic, self._rng)
        return in_space(space, action), state

    @property
    def observation_space(self) -> Any:
        """That of the environment."""
        return (self.env if self._hosting is None else self._hosting.first).observation_space

    @property
    def action_space(self) -> Any:
        """That of the environment."""
        return (self.env if self._hosting is None else self._hosting.first).action_space

    def to_numpy(self, learner: int = 0) -> NumpyPolicy:
        """The policy of one learner, to be saved as one file and used where JAX is not."""
        theta = np.asarray(self.theta[learner], float)
        return NumpyPolicy(self.policy, theta, ActionMap.of(self.action_space))

    def save(self, path: str | Path) -> None:
        """Write all that is needed to act and to go on learning into a folder; see `load`."""
        with Keeper(path, self._identity, keep=1) as keeper:
            keeper.save(self.steps, self._state, self._facts(self._asked, None))

    def evaluate(
        self,
        n_eval_episodes: int | None = None,
        deterministic: bool = False,
        *,
        seed: int = 1,
        target: Any = None,
        order: float | None = None,
        max_steps: int | None = None,
        log_returns: bool | None = None,
    ) -> Evaluations:
        """Fresh episodes of every learner's policy: measures with intervals, and which bounds hold.

        They are 10,000 by default, and 100 in a Python environment. The sampled policy is judged,
        for which a bound was learnt, or the most likely actions if ``deterministic``. Episodes
        depend on ``seed`` and their number alone: all learners, of this and of any other agent,
        meet the same noise. ``target`` and ``order`` are those of the first constraint by default,
        and a fixed target of 0 where there is none.
        """
        if n_eval_episodes is not None:
            check_count("n_eval_episodes", n_eval_episodes, least=2)
        results: list[Evaluation] = []
        with self._in_precision():
            for i in range(len(self.theta)):
                own_target, own_order = judged_by(self.constraints[i // self.n_seeds])
                goal = (own_target, own_order) if target is None else (target, 1)
                results.append(
                    self._evaluate_one(
                        i,
                        goal if order is None else (goal[0], order),
                        n_eval_episodes,
                        deterministic,
                        seed=seed,
                        max_steps=max_steps,
                        log_returns=log_returns,
                    )
                )
        labels = tuple(self.labels) if any(self.variants) else ()
        return Evaluations(tuple(results), self.n_seeds, labels)

    def suggest_threshold(
        self, target: Any = None, order: float = 1, n_eval_episodes: int | None = None
    ) -> float:
        """Half the risk of the first learner's policy about a target: a threshold that binds.

        Meant for a risk-neutral agent, such as `NAC` or a threshold of inf, after it has learnt.
        The target is that of the agent's own constraint if none is given.
        """
        goal = judged_by(self.constraints[0]) if target is None else (as_target(target), order)
        if target is None and not self.constraints[0]:
            raise ValueError(
                "a threshold on which risk? give the target, such as "
                "agent.suggest_threshold(target=100.0)"
            )
        with self._in_precision():
            found = self._evaluate_one(0, goal, n_eval_episodes, deterministic=False, seed=1)
        if "proxy" not in found.measures:
            raise ValueError(
                f"{goal[0]} needs what is learnt together with a bound on it; learn with "
                "ds.NRCPO(env, target=..., threshold=math.inf) and ask that agent"
            )
        if not found.proxy.value > 0:
            raise ValueError("the policy has no risk about this target; there is nothing to bound")
        return 0.5 * found.proxy.value

    def summary(self) -> str:
        """A line for every threshold: mean, risk, multiplier, and what went wrong.

        Where settings have several values, for every combination of them too.
        """
        if not self._state.reports:
            return "not trained yet"
        failed = np.asarray(self._state.learners.failed)
        firsts = range(0, len(self.theta), self.n_seeds)
        misfits = [self._misfit(i) for i in firsts]
        return summarise(self.records, self.constraints, self.labels, self.n_seeds, failed, misfits)

    def failures(self) -> list[str]:
        """What stopped each learner that is no longer finite: quantity, step, likely cause."""
        wrong = np.flatnonzero(np.asarray(self._state.learners.failed))
        pick = lambda tree, i: jax.tree.map(lambda x: x[i], tree)  # noqa: E731
        with self._in_precision():
            return [
                f"learner {i}: {lead(self.labels[i // self.n_seeds])}"
                + explain(pick(self._settings, i), pick(self._state.learners, i), self._keys[i])
                for i in wrong
            ]

    def _misfit(self, i: int) -> str | None:
        """What is wrong with the mean rewards that learner i has learnt, in its last period."""
        latest = None if self._host is None else self._host.latest
        if latest is None or self._settings.mean_reward is None:
            return None
        model, weights = self._means_of(i)
        sample = latest.obs, latest.done, latest.reward
        sample = jax.tree.map(lambda x: x[i].reshape(-1, *x.shape[3:]), sample)
        with self._in_precision():
            return misfit(model, weights, sample, self.observation_space, self.action_space).note

    def _means_of(self, i: int) -> tuple[Any, Any]:
        """The model of mean rewards of learner i, and its weights."""
        both = self._settings.mean_reward, self._state.learners.mean_reward
        return jax.tree.map(lambda x: x[i], both)

    def _evaluate_one(
        self,
        i: int,
        goal: tuple[Any, float],
        n_episodes: int | None,
        deterministic: bool,
        **options: Any,
    ) -> Evaluation:
        """Fresh episodes of learner i about ``goal``, target and order."""
        theta, constraints = self.theta[i], self.constraints[i // self.n_seeds]
        options |= {"constraints": constraints, "deterministic": deterministic}
        if self._settings.mean_reward is not None:
            options["means"] = Partial(predicted, *self._means_of(i))
        if self._host is None or self._hosting is None:
            options["n_episodes"] = n_episodes or 10_000
            return evaluate_ours(self.env, self.policy, theta, goal, **options)
        if self._hosting.make is None:  # the only copy: learning has to find its way back
            self._host.is_clean = False
        options["n_eval_episodes"] = n_episodes or 100
        return evaluate_hosted(self._hosting, self.policy, theta, goal, **options)

    def _take(self, chunk: run.Chunk) -> None:
        reports = self._state.reports
        if chunk.complete:
            reports = thinned([*reports, chunk.report])
        seconds = self._state.seconds + chunk.seconds
        streams = None if self._host is None else self._host.state()
        self._state = Saved(chunk.learners, reports, chunk.period, chunk.complete, seconds, streams)
        if self._host is not None:
            self._host.is_clean = True
        self._warm = self._warm or (chunk.period, seconds)

    def _go_on_from(self, saved: Saved) -> None:
        """Stand where a checkpoint stands, streams of Python environments included."""
        self._state = saved
        if self._host is not None:
            lost = self._host.put_back(saved.streams or {})
            self._state = replace(saved, learners=without_episodes(saved.learners, lost))

    def _save(self, end: int, report: run.Report | None = None) -> None:
        assert self._keeper is not None
        self._keeper.save(self.steps, self._state, self._facts(end, report))

    def _facts(self, end: int, report: run.Report | None) -> dict[str, Any]:
        n = len(self.constraints)
        thresholds = self._thresholds[:: self.n_seeds].tolist()
        facts: dict[str, Any] = {"goal": end * self._settings.period, "thresholds": thresholds}
        facts["learners"] = n * self.n_seeds
        if self._warm is not None and self._state.periods > self._warm[0]:
            made = (self._state.periods - self._warm[0]) * self._settings.period
            facts["speed"] = made * facts["learners"] / (self._state.seconds - self._warm[1])
        if self._recipe is not None:
            facts["recipe"] = self._recipe
        if report is not None:
            facts |= {"mean": average(report.returns), "failed": int((report.failed > 0).sum())}
            for name in ("risks", "multipliers"):
                values = getattr(report, name).reshape(n, self.n_seeds, -1)
                facts[name] = [[average(row) for row in each.T] for each in values]
        return facts

    def restore(self, saved: Callable[[Any], Saved]) -> "Agent":
        """Go on from what was saved; ``saved`` reads it, given learners of the right shape."""
        with self._in_precision():
            self._go_on_from(saved(self._state.learners))
        self._asked = self._state.periods
        return self

    def _in_precision(self) -> Any:
        return jax.enable_x64(self.precision == "float64")

    @property
    def _thresholds(self) -> np.ndarray:
        rows = [[float(c.threshold) for c in each] for each in self.constraints]
        return np.repeat(np.array(rows), self.n_seeds, axis=0)
