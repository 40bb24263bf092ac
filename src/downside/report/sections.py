"""What the report shows of each experiment, from its saved results."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from downside.experiments.base import Results
from downside.report.charts import Axis, Json, Picker, learning_curves
from downside.report.figures import ARMS, ESTIMATES, METHODS
from downside.report.panels import Panel, still
from downside.report.risk_sections import consumption_panels, portfolio_panels
from downside.report.style import GREY, Look, thinned


@dataclass(frozen=True)
class Section:
    """An experiment: its heading, what it is about in two sentences, and its panels."""

    title: str
    about: str
    panels: Callable[[Results], list[Panel]]


def _landscape(results: Results) -> list[Panel]:
    tree = "A tree: right or left, then up or down, each step worth plus or minus 1."
    slack = (
        "Proxy less LPM on random MDPs by target: never negative for fixed targets that are split "
        "over the horizon with the rest charged and for the TD error, often negative for the "
        "printed split, for early ends without a charge and for the centralised target."
    )
    surfaces = (
        "Four surfaces over the policy's two probabilities: the variance has minima at all four "
        "corners, mean less variance a local maximum at each corner, the LPM is least on two "
        "edges, mean less LPM has one maximum, at (1, 1)."
    )
    return [
        Panel(
            "Fig. 1: the tree",
            "Two choices, each worth +1 or -1; theta1 and theta2 are the policy.",
            "fig1",
            picture=still("landscape", "fig1_tree", results, tree, least=20),
            files=["fig1_tree"],
        ),
        Panel(
            "Fig. 2: its landscape",
            "From closed forms. Circles and red edges are optima. A learner that penalises the "
            "variance can be caught at any corner; with the shortfall below 0 it cannot.",
            "fig2",
            picture=still("landscape", "fig2_landscape", results, surfaces, least=44),
            files=["fig2_landscape"],
        ),
        Panel(
            "Where the proxy bounds the LPM",
            f"A point is a random MDP ({results['bound: centralised'].size:,} in each row), a row "
            "a way to set the target of each step. To the left of 0 the LPM is larger than the "
            "proxy that should bound it.",
            "bound",
            picture=still("landscape", "bound", results, slack, least=40),
            files=["bound"],
        ),
    ]


GOALS = {
    "mean": "the mean, E",
    "order 1": "E - 2 LPM of order 1",
    "order 2": "E - LPM of order 2",
}


def _bandit(results: Results) -> list[Panel]:
    goals = [str(goal) for goal in results["goals"]]
    goal = Picker("goal", "goal:", {g: GOALS.get(g, g) for g in (*goals[1:], goals[0])})
    methods = [str(name) for name in results["methods"]]
    first = [name for name in ("figure", "printed", "fast") if name in methods]
    preset = Picker(
        "preset", "preset:", {n: n for n in (*first, *(m for m in methods if m not in first))}
    )
    samples = Axis("samples", "samples", form=",d")
    arms = learning_curves(
        list(_arm_rows(results, goals, methods)),
        x=samples,
        y=Axis("probability", "probability of the arm", zero=True),
        line="arm",
        figure="fig3",
        looks=ARMS,
        pickers=[goal, preset],
        alt_text="Probability of each arm against samples, for the picked goal and preset.",
    )
    share = learning_curves(
        list(_share_rows(results, goals, methods)),
        x=Axis("samples", "samples (log scale)", log=True, form=",~s"),
        y=Axis("share", "share of trials with p(right arm) > 0.95", zero=True),
        line="method",
        figure="fig3b",
        looks=METHODS | {"printed, exact tau": Look(GREY, dashes=":")},
        pickers=[goal],
        rules=[{"value": 0.95, "label": "95%"}],
        alt_text="Share of trials that are right against samples, by method, for the picked goal.",
    )
    return [
        Panel(
            "Fig. 3: what the agents come to prefer",
            "Mean over trials and the middle 80% of them. Arm A pays little and steadily, B pays "
            "most on average and varies most, C has a floor: it is the right arm for both "
            "risk-averse goals. Preset printed has the paper's constants, figure a policy step at "
            "every sample without normalisation, fast is tuned.",
            "fig3",
            pickers=[goal, preset],
            charts=[arms],
            files=["fig3_bandit"],
        ),
        Panel(
            "How many samples each method needs",
            "Where a line passes 95% for good, nearly all trials have found the right arm. A click "
            "in the legend picks out a method.",
            "fig3b",
            pickers=[goal],
            charts=[share],
            files=["bandit_samples"],
        ),
    ]


def _arm_rows(results: Results, goals: Sequence[str], methods: Sequence[str]) -> Iterator[Json]:
    for name in methods:
        counts = results[f"counts: {name}"]
        for j, goal in enumerate(goals):
            mean, (low, high) = results[f"mean: {name}"][j], results[f"band: {name}"][j]
            for arm, label in enumerate("ABC"):
                common = {"arm": f"arm {label}", "goal": goal, "preset": name}
                yield {"samples": 0, "probability": 1 / 3, "low": 1 / 3, "high": 1 / 3} | common
                for i in thinned(len(counts), 40):
                    yield {
                        "samples": int(counts[i]),
                        "probability": mean[i, arm],
                        "low": low[i, arm],
                        "high": high[i, arm],
                        **common,
                    }


def _share_rows(results: Results, goals: Sequence[str], methods: Sequence[str]) -> Iterator[Json]:
    for name in methods:
        counts = results[f"counts: {name}"]
        for j, goal in enumerate(goals):
            share = results[f"share: {name}"][j]
            for i in thinned(len(counts), 80, log=True):
                row = {"samples": int(counts[i]), "method": name, "goal": goal}
                yield row | {"share": share[i]}


def _prediction(results: Results) -> list[Panel]:
    problems = [str(name) for name in results["problems"]]
    problem = Picker("problem", "problem:", {name: name for name in problems})
    curves = learning_curves(
        list(_error_rows(results, problems)),
        x=Axis("steps", "environment steps (log scale)", log=True, form=",~s"),
        y=Axis(
            "error",
            "root mean square relative error (log scale)",
            log=True,
            form=".0%",
            values=(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0),
        ),
        line="method",
        figure="samples",
        looks=dict(zip(map(str, results["methods"]), ESTIMATES, strict=False)),
        pickers=[problem],
        rules=[{"value": 0.1, "label": "10%"}, {"value": 0.05, "label": "5%"}],
        alt_text="Error of the estimated risk against environment steps, by method.",
        height=320,
    )
    words = "Noise of the TD targets of q and of the proxies of order 1 and 2, on each problem."
    return [
        Panel(
            "How many samples a risk estimate needs",
            "Error of the proxy of order 1 at the start, with 95% bands over the seeds. All "
            "methods learn from the same experience; lower and further left is better.",
            "samples",
            pickers=[problem],
            charts=[curves],
            files=["samples"],
        ),
        Panel(
            "How noisy its targets are",
            "Squared coefficient of variation of the TD targets (variance over squared mean), log "
            "scale.",
            "targets",
            picture=still("prediction", "targets", results, words, least=30),
            files=["targets"],
        ),
    ]


def _error_rows(results: Results, problems: Sequence[str]) -> Iterator[Json]:
    for name in problems:
        counts, bands = results[f"counts: {name}"], results[f"rmse: {name}"][:, 0]
        for j, method in enumerate(map(str, results["methods"])):
            low, middle, high = bands[:, j]
            for i in thinned(len(counts), 60, log=True):
                row = {"steps": int(counts[i]), "method": method, "problem": name}
                yield row | {"error": middle[i], "low": low[i], "high": high[i]}


SECTIONS = {
    "landscape": Section(
        "The tree and its landscape",
        "Why downside risk? In a game of two choices, penalising the variance traps a learner in "
        "local optima; penalising the shortfall below 0 does not. The lemmas and the bound are "
        "tried here on random variables and random MDPs.",
        _landscape,
    ),
    "bandit": Section(
        "The bandit",
        "Three arms, one pull: does a learner that fears losses find the arm with a floor, and "
        "how many samples does it need beside a Monte-Carlo gradient?",
        _bandit,
    ),
    "portfolio": Section(
        "The portfolio",
        "Cash, and an asset that pays more and may default. How do mean and risk move as the "
        "bound nu on the proxy is loosened?",
        portfolio_panels,
    ),
    "consumption": Section(
        "Optimal consumption",
        "Spend wealth over a year, or invest it in an asset that may default. Does the learner "
        "keep its risk at nu, and how near does it come to the best that is possible?",
        consumption_panels,
    ),
    "prediction": Section(
        "Sample efficiency",
        "The risk of a given policy, estimated by temporal differences and by Monte-Carlo, "
        "against exact answers on six problems.",
        _prediction,
    ),
}
