/* One NRCPO learner in plain C: what the library's speed is held against.
 *
 *     cc -O3 -march=native -DPROBLEM='"portfolio.h"' benchmarks/c/learner.c -o portfolio -lm
 *     ./portfolio SEED STEPS THRESHOLD [--frozen] [--last EPISODES]
 *
 * PROBLEM is "portfolio.h", "consumption.h" or "bandit.h". STEPS are environment steps,
 * pre-training included, rounded up to whole episodes; a huge THRESHOLD, such as 1e9, constrains
 * nothing. --frozen leaves the policy at its start (all else is learnt and timed as usual). It
 * prints one JSON object; the statistics are those of the last 1000 episodes, or as many as --last
 * says. -DREAL=float computes in single precision.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "numbers.h"

typedef struct {
    real reward, shortfall; /* shortfall: (target - reward)+ */
} Signals;

#include PROBLEM

static const real CRITIC_STEP = 3e-4, POLICY_STEP = 5e-3, MULTIPLIER_STEP = 1e-3;

typedef struct {
    Matrix policy, reward_critic, risk_critic, trace;
    real multiplier;
} Learner;

/* SARSA(lambda) for both signals: one accumulating trace, since they share features and discount.
 * The trace is decayed before it is added to, and cleared at the start of an episode. */
static inline void learn(Learner *learner, const Decision *at, Signals signals, real next_reward,
                         real next_risk) {
    const real reward_error = signals.reward + next_reward - value(learner->reward_critic, at);
    const real risk_error = signals.shortfall + next_risk - value(learner->risk_critic, at);
    for (int k = 0; k < ROWS; k++)
        FOR_COLUMNS(c) {
            const real trace = DISCOUNT * TRACE_DECAY * learner->trace[k][c] +
                               at->left[k] * at->right[c];
            learner->trace[k][c] = trace;
            learner->reward_critic[k][c] += CRITIC_STEP * reward_error * trace;
            learner->risk_critic[k][c] += CRITIC_STEP * risk_error * trace;
        }
}

/* theta += step (w_q - multiplier w_rho) / its norm: the weights of the score alone. */
static void improve(Learner *learner, real step_size) {
    Matrix direction;
    real squares = 0;
    for (int k = SCORE_ROW; k < ROWS; k++)
        for (int c = 0; c < SCORE_COLUMNS; c++) {
            direction[k][c] = learner->reward_critic[k][c] -
                              learner->multiplier * learner->risk_critic[k][c];
            squares += direction[k][c] * direction[k][c];
        }
    if (!(squares > 0)) return;
    const real scale = step_size / sqrt(squares);
    for (int k = SCORE_ROW; k < ROWS; k++)
        for (int c = 0; c < SCORE_COLUMNS; c++) learner->policy[k][c] += scale * direction[k][c];
}

typedef struct {
    double total_return, discounted_proxy;
} Outcome;

static Outcome run_episode(Learner *learner, Random *random, long *steps, bool trains_policy,
                           real policy_step) {
    State state = START;
    Decision decisions[2], *now = &decisions[0], *next = &decisions[1];
    Outcome outcome = {0, 0};
    double discount = 1;
    memset(learner->trace, 0, sizeof learner->trace);
    decide(learner->policy, &state, random, now);
    for (bool over = false; !over;) {
        const Signals signals = step(&state, now->action, random);
        real next_reward = 0, next_risk = 0;
        over = is_over(&state);
        if (!over) {
            decide(learner->policy, &state, random, next);
            next_reward = DISCOUNT * value(learner->reward_critic, next);
            next_risk = DISCOUNT * value(learner->risk_critic, next);
        }
        learn(learner, now, signals, next_reward, next_risk);
        if (++*steps % POLICY_PERIOD == 0 && trains_policy) improve(learner, policy_step);

        outcome.total_return += signals.reward;
        outcome.discounted_proxy += discount * signals.shortfall;
        discount *= DISCOUNT;
        Decision *const spare = now;
        now = next;
        next = spare;
    }
    return outcome;
}

typedef struct {
    long count;
    double sum, sum_of_squares;
} Sample;

static void add(Sample *sample, double x) {
    sample->count++;
    sample->sum += x;
    sample->sum_of_squares += x * x;
}

static double mean(const Sample *s) { return s->sum / (double)s->count; }

static double standard_error(const Sample *s) {
    const double n = (double)s->count, variance = s->sum_of_squares / n - mean(s) * mean(s);
    return sqrt((variance > 0 ? variance : 0) / n);
}

static double seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int usage(const char *name) {
    fprintf(stderr, "usage: %s SEED STEPS THRESHOLD [--frozen] [--last EPISODES]\n", name);
    return 2;
}

int main(int argc, char **argv) {
    if (argc < 4) return usage(argv[0]);
    Random random = seeded(strtoull(argv[1], NULL, 10));
    const long least = strtol(argv[2], NULL, 10);
    const real threshold = strtod(argv[3], NULL);
    bool frozen = false;
    long last = 1000;
    for (int i = 4; i < argc; i++) {
        if (strcmp(argv[i], "--frozen") == 0) frozen = true;
        else if (strcmp(argv[i], "--last") == 0 && i + 1 < argc) last = strtol(argv[++i], NULL, 10);
        else return usage(argv[0]);
    }
    if (least < 1 || last < 1) return usage(argv[0]);
    Outcome *const kept = calloc((size_t)last, sizeof *kept); /* a ring: the last episodes */
    if (kept == NULL) return usage(argv[0]);

    static Learner learner;
    memcpy(learner.policy, POLICY_START, sizeof learner.policy);
    long steps = 0, episodes = 0;
    const double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    for (long at = 0; steps < least; at = at + 1 < last ? at + 1 : 0) {
        const bool trains_policy = episodes++ >= PRETRAIN_EPISODES;
        kept[at] = run_episode(&learner, &random, &steps, trains_policy, frozen ? 0 : POLICY_STEP);
        const real ascent = MULTIPLIER_STEP * ((real)kept[at].discounted_proxy - threshold);
        const real moved = learner.multiplier + ascent;
        learner.multiplier = moved > 0 ? moved : 0;
    }
    const double ns = 1e9 / (double)steps;
    const double wall_ns = ns * (seconds(CLOCK_MONOTONIC) - wall);
    const double cpu_ns = ns * (seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu);

    Sample returns = {0}, proxies = {0};
    for (long i = 0; i < last && i < episodes; i++) {
        add(&returns, kept[i].total_return);
        add(&proxies, kept[i].discounted_proxy);
    }
    free(kept);
    printf("{\"steps\": %ld, \"ns_per_step\": %.2f, \"cpu_ns_per_step\": %.2f, ", steps,
           wall_ns, cpu_ns);
    printf("\"episodes\": %ld, \"mean\": %.6f, \"mean_error\": %.6f, ", returns.count,
           mean(&returns), standard_error(&returns));
    printf("\"proxy\": %.6f, \"proxy_error\": %.6f, \"multiplier\": %.6f}\n", mean(&proxies),
           standard_error(&proxies), (double)learner.multiplier);
    return 0;
}
