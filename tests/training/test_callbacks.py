import functools

import numpy as np
import pytest

from downside.training.callbacks import check_callback, says_stop


class OnStep:
    def on_step(self):
        return True


class Counting:
    def __call__(self, record, factor=2):
        return True


@pytest.mark.parametrize(
    ("callback", "words"),
    [
        (OnStep(), "OnStep is a callback for Stable-Baselines3"),
        (OnStep, "OnStep is a callback for Stable-Baselines3"),
        ([print, OnStep()], "OnStep is a callback for Stable-Baselines3"),
        (lambda local_names, global_names: True, "takes 2 arguments, as in Stable-Baselines3"),
    ],
)
def test_habits_from_elsewhere_get_the_replacement(callback, words):
    with pytest.raises(ValueError, match=f"{words}; .*callback=lambda record: not"):
        check_callback(callback)


def test_what_cannot_be_called_is_refused():
    with pytest.raises(ValueError, match="callback is 3; give a function of the record"):
        check_callback(3)


@pytest.mark.parametrize(
    "callback",
    [None, lambda record: None, Counting(), functools.partial(lambda a, record: a, 1), max, print],
)
def test_functions_of_one_record_are_taken(callback):
    check_callback(callback)


def test_false_stops_and_nothing_goes_on():
    assert says_stop(False)
    assert says_stop(np.False_)
    assert not says_stop(None)
    assert not says_stop(True)
