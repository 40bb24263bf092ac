"""CartPole with a clock: what an agent takes per step, without what its environment takes."""

import time

import gymnasium


class Timed(gymnasium.Wrapper):
    """Adds up what an environment takes."""

    seconds = 0.0

    def reset(self, **options):
        """Timed."""
        began = time.thread_time()
        found = self.env.reset(**options)
        Timed.seconds += time.thread_time() - began
        return found

    def step(self, action):
        """Timed."""
        began = time.thread_time()
        found = self.env.step(action)
        Timed.seconds += time.thread_time() - began
        return found


def timed_env():
    """One copy."""
    return Timed(gymnasium.make("CartPole-v1"))


def own_ns(learn, n_steps):
    """Processor time of all threads per step, less the environment's, in nanoseconds."""
    Timed.seconds, began = 0.0, time.process_time()
    learn(n_steps)
    return 1e9 * (time.process_time() - began - Timed.seconds) / n_steps
