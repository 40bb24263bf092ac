import numpy as np
import pytest

from downside.evaluation import Evaluation, Evaluations, compare

LUCK = np.random.default_rng(2).normal(size=3000)


def policy(gain=1.0, shift=0.0, luck=LUCK, n=1):
    rng = np.random.default_rng(int(10 * gain))
    seeds = [
        Evaluation.of_episodes(gain * luck + shift + 0.1 * rng.normal(), target=0.5)
        for _ in range(n)
    ]
    return Evaluations(tuple(seeds), n)


def test_shared_luck_cancels():
    a, b = policy(1.0, 0.3)[0], policy(1.01, 0.2)[0]
    paired = compare(a, b).differences[0]["mean"]
    apart = compare(a, policy(1.01, 0.2, luck=LUCK[::-1])[0]).differences[0]["mean"]
    assert paired.value == pytest.approx(a.mean.value - b.mean.value)
    assert paired.high - paired.low < 0.05 * (apart.high - apart.low)


def test_the_interval_of_a_paired_difference_is_that_of_the_differences():
    # For means the bootstrap of the pairs is the bootstrap of their differences.
    a, b = policy(1.4, 0.3)[0], policy(0.8, 0.1)[0]
    found = compare(a, b).differences[0]["mean"]
    gaps = Evaluation.of_episodes(a.episodes.returns - b.episodes.returns, target=0.5)
    assert (found.low, found.high) == pytest.approx((gaps.mean.low, gaps.mean.high))


@pytest.mark.parametrize(("n", "m"), [(4, 4), (4, 3), (1, 3)])
def test_seeds_are_averaged_and_their_spread_is_in_the_interval(n, m):
    a, b = policy(1.4, 0.3, n=n), policy(1.5, 0.1, n=m)
    found = compare(a, b).differences[0]["mean"]
    values = [[one.mean.value for one in each] for each in (a, b)]
    assert found.value == pytest.approx(np.mean(values[0]) - np.mean(values[1]))
    alone = compare(a[0], b[0]).differences[0]["mean"]
    assert found.high - found.low > alone.high - alone.low


def test_it_prints_and_gives_frames():
    found = compare(policy(1.0, 0.5), policy(2.0), policy(1.0), names=("shy", "bold", "poor"))
    text = str(found)
    assert "differences over the same 3,000 episodes, shy minus the other" in text
    assert "  *" in text
    frame = found.to_frame()
    assert frame["other"].unique().sort().to_list() == ["bold", "poor"]
    assert set(found.to_dict()) == {"shy - bold", "shy - poor"}


@pytest.mark.parametrize(
    ("make", "advice"),
    [
        (lambda: compare(policy()), "at least two policies"),
        (lambda: compare(policy(), 3), "give agents or evaluations"),
        (lambda: compare(policy(), policy(luck=LUCK[:50])), "same n_eval_episodes and seed"),
        (lambda: compare(policy(), policy(), names=("a",)), "1 names for 2 policies"),
        (
            lambda: compare(policy(), Evaluations(policy(n=4).results, 2)),
            r"compare\(\*agent\.evaluate\(\)\.blocks\)",
        ),
    ],
)
def test_bad_input_is_refused_in_a_sentence(make, advice):
    with pytest.raises(ValueError, match=advice):
        make()
