/* One NRCPO learner on the portfolio problem, in plain C: what the library's speed is held against.
 *
 *     cc -O3 -march=native benchmarks/portfolio.c -o portfolio -lm
 *     ./portfolio SEED STEPS THRESHOLD [--frozen] [--last EPISODES]
 *
 * STEPS are environment steps, pre-training included, rounded up to whole episodes; a huge
 * THRESHOLD, such as 1e9, constrains nothing. --frozen leaves the policy at its uniform start (all
 * else is learnt and timed as usual). It prints one JSON object; the statistics are those of the
 * last 1000 episodes, or as many as --last says.
 *
 * The settings are those of the preset "figure". The features of one step are an outer product,
 * observation features times [one_hot(a) - pi | 1], so weights are stored with a row per
 * observation feature and a column per action, the baseline in the last one: every inner loop runs
 * over a row of 12 without a reduction, and a compiler vectorises it even without -ffast-math.
 * -DREAL=float computes in single precision.
 */
#define _POSIX_C_SOURCE 200809L
#include <float.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tgmath.h>
#include <time.h>

#ifndef REAL
#define REAL double
#endif
typedef REAL real;

/* A loop over a row. Unless told not to, GCC unrolls it completely first, and then finds nothing
 * that it could vectorise. */
#define FOR_COLUMNS(c) _Pragma("GCC unroll 1") for (int c = 0; c < COLUMNS; c++)

enum {
    HORIZON = 50,
    MATURITY = 4,
    ACTIONS = 11,
    FEATURES = 1 + 1 + MATURITY + 1, /* constant, liquid, pending orders, deviation of the rate */
    COLUMNS = ACTIONS + 1,           /* a column per action, and one for the baseline */
    BASELINE = ACTIONS,
    POLICY_PERIOD = 200,    /* environment steps from one policy step to the next */
    PRETRAIN_EPISODES = 1000 /* the critics learn alone */
};

static const real LIQUID_RATE = 1.005, LOW_RATE = 1.05, HIGH_RATE = 1.25, UNIT_COST = 0.02;
static const real UP_PROBABILITY = 0.1, DOWN_PROBABILITY = 0.6, DEFAULT_PROBABILITY = 0.1;
static const real DISCOUNT = 0.99, TRACE_DECAY = 1.0;
static const real CRITIC_STEP = 3e-4, POLICY_STEP = 5e-3, MULTIPLIER_STEP = 1e-3;

/* xoshiro256+, its state filled by splitmix64 (Blackman and Vigna) */
typedef struct {
    uint64_t word[4];
} Random;

static Random seeded(uint64_t seed) {
    Random random;
    for (int i = 0; i < 4; i++) {
        seed += 0x9e3779b97f4a7c15u;
        uint64_t mixed = seed;
        mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
        mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
        random.word[i] = mixed ^ mixed >> 31;
    }
    return random;
}

/* A uniform number on [0, 1): as many of the upper bits as the type holds exactly. */
static inline real uniform(Random *random) {
    uint64_t *w = random->word;
    const uint64_t bits = w[0] + w[3], shifted = w[1] << 17;
    w[2] ^= w[0];
    w[3] ^= w[1];
    w[1] ^= w[2];
    w[0] ^= w[3];
    w[2] ^= shifted;
    w[3] = w[3] << 45 | w[3] >> 19;
    if (sizeof(real) == sizeof(float)) return (real)(bits >> 40) * (real)0x1p-24;
    return (real)(bits >> 11) * (real)0x1p-53;
}

typedef struct {
    real liquid;
    real pending[MATURITY]; /* the first matures next */
    bool rate_is_high;
    int high_steps, time;
} State;

static const State START = {.liquid = 1.0};

static inline void observe(const State *state, real features[FEATURES]) {
    const real past = (real)state->high_steps / (real)(state->time > 0 ? state->time : 1);
    features[0] = 1;
    features[1] = state->liquid;
    for (int i = 0; i < MATURITY; i++) features[2 + i] = state->pending[i];
    features[2 + MATURITY] = (HIGH_RATE - LOW_RATE) * ((real)state->rate_is_high - past);
}

typedef struct {
    real reward, shortfall; /* shortfall: (r(s,a) - R)+ */
} Signals;

/* Buy what can be afforded, earn interest, collect or lose what matures; then the rate may switch.
 * With p the probability of a default and r = (1 - p) paid + p lost, the shortfall is 0 if the
 * order pays, and r - lost = (1 - p) (paid - lost) if it defaults. */
static inline Signals step(State *state, int order, Random *random) {
    const real rounding = sizeof(real) == sizeof(float) ? 16 * FLT_EPSILON : 1e-9;
    const real affordable = floor((state->liquid - UNIT_COST) / UNIT_COST + rounding);
    const real units = order < affordable ? (real)order : affordable > 0 ? affordable : 0;
    const real rate = state->rate_is_high ? HIGH_RATE : LOW_RATE;
    const real cash = LIQUID_RATE * (state->liquid - UNIT_COST * units);
    const real payoff = state->pending[0] * rate;
    const bool lost = payoff > 0 && uniform(random) < DEFAULT_PROBABILITY;
    const real liquid = lost ? cash : cash + payoff;

    Signals signals = {.reward = log(liquid / state->liquid), .shortfall = 0};
    if (lost) signals.shortfall = (1 - DEFAULT_PROBABILITY) * log((cash + payoff) / cash);

    state->liquid = liquid;
    for (int i = 0; i + 1 < MATURITY; i++) state->pending[i] = state->pending[i + 1] * rate;
    state->pending[MATURITY - 1] = UNIT_COST * units * rate;
    state->high_steps += state->rate_is_high;
    state->time++;
    const real switching = state->rate_is_high ? DOWN_PROBABILITY : UP_PROBABILITY;
    if (uniform(random) < switching) state->rate_is_high = !state->rate_is_high;
    return signals;
}

typedef real Matrix[FEATURES][COLUMNS];

/* What one decision leaves to the critics: features of the observation, the chosen action, and the
 * row [one_hot(action) - pi | 1]; the compatible features are the outer product of both. */
typedef struct {
    real features[FEATURES], row[COLUMNS];
    int action;
} Decision;

/* features' matrix: a sum per column. */
static inline void product(const Matrix matrix, const real features[FEATURES], real out[COLUMNS]) {
    FOR_COLUMNS(c) {
        real total = matrix[0][c]; /* the first feature is 1 */
        for (int k = 1; k < FEATURES; k++) total += features[k] * matrix[k][c];
        out[c] = total;
    }
}

/* Four sums side by side: in strict arithmetic one sum would wait for every addition in turn. */
static inline real sum(const real row[COLUMNS]) {
    real lane[4];
    for (int i = 0; i < 4; i++) lane[i] = row[i] + row[i + 4] + row[i + 8];
    return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

static inline void decide(const Matrix policy, const State *state, Random *random, Decision *made) {
    real chance[COLUMNS]; /* first the preferences, then their exponentials */
    observe(state, made->features);
    product(policy, made->features, chance);
    real top = chance[0];
    for (int a = 1; a < ACTIONS; a++) top = chance[a] > top ? chance[a] : top;
    chance[BASELINE] = top;
    FOR_COLUMNS(c) chance[c] = exp(chance[c] - top);
    chance[BASELINE] = 0;
    const real total = sum(chance);

    real rest = uniform(random) * total;
    int action = 0;
    while (action < ACTIONS - 1 && rest >= chance[action]) rest -= chance[action++];

    const real scale = 1 / total;
    FOR_COLUMNS(c) made->row[c] = (real)(c == action) - scale * chance[c];
    made->row[BASELINE] = 1;
    made->action = action;
}

static inline real value(const Matrix weights, const Decision *at) {
    real part[COLUMNS];
    product(weights, at->features, part);
    FOR_COLUMNS(c) part[c] *= at->row[c];
    return sum(part);
}

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
    for (int k = 0; k < FEATURES; k++)
        FOR_COLUMNS(c) {
            const real trace = DISCOUNT * TRACE_DECAY * learner->trace[k][c] +
                               at->features[k] * at->row[c];
            learner->trace[k][c] = trace;
            learner->reward_critic[k][c] += CRITIC_STEP * reward_error * trace;
            learner->risk_critic[k][c] += CRITIC_STEP * risk_error * trace;
        }
}

/* theta += step (w_q - multiplier w_rho) / its norm: the weights of the score alone. */
static void improve(Learner *learner, real step_size) {
    Matrix direction;
    real squares = 0;
    for (int k = 0; k < FEATURES; k++)
        for (int a = 0; a < ACTIONS; a++) {
            direction[k][a] = learner->reward_critic[k][a] -
                              learner->multiplier * learner->risk_critic[k][a];
            squares += direction[k][a] * direction[k][a];
        }
    if (!(squares > 0)) return;
    const real scale = step_size / sqrt(squares);
    for (int k = 0; k < FEATURES; k++)
        for (int a = 0; a < ACTIONS; a++) learner->policy[k][a] += scale * direction[k][a];
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
    for (int t = 1; t <= HORIZON; t++) {
        const Signals signals = step(&state, now->action, random);
        real next_reward = 0, next_risk = 0;
        if (t < HORIZON) {
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
    const long episodes = (strtol(argv[2], NULL, 10) + HORIZON - 1) / HORIZON;
    const real threshold = strtod(argv[3], NULL);
    bool frozen = false;
    long last = 1000;
    for (int i = 4; i < argc; i++) {
        if (strcmp(argv[i], "--frozen") == 0) frozen = true;
        else if (strcmp(argv[i], "--last") == 0 && i + 1 < argc) last = strtol(argv[++i], NULL, 10);
        else return usage(argv[0]);
    }
    if (episodes < 1 || last < 1) return usage(argv[0]);

    static Learner learner;
    Sample returns = {0}, proxies = {0};
    long steps = 0;
    const double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    for (long episode = 0; episode < episodes; episode++) {
        const Outcome outcome = run_episode(&learner, &random, &steps,
                                            episode >= PRETRAIN_EPISODES, frozen ? 0 : POLICY_STEP);
        const real ascent = MULTIPLIER_STEP * ((real)outcome.discounted_proxy - threshold);
        learner.multiplier = fmax((real)0, learner.multiplier + ascent);
        if (episode >= episodes - last) {
            add(&returns, outcome.total_return);
            add(&proxies, outcome.discounted_proxy);
        }
    }
    const double ns = 1e9 / (double)steps;
    printf("{\"steps\": %ld, \"ns_per_step\": %.2f, \"cpu_ns_per_step\": %.2f, ", steps,
           ns * (seconds(CLOCK_MONOTONIC) - wall), ns * (seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu));
    printf("\"episodes\": %ld, \"mean\": %.6f, \"mean_error\": %.6f, ", returns.count,
           mean(&returns), standard_error(&returns));
    printf("\"proxy\": %.6f, \"proxy_error\": %.6f, \"multiplier\": %.6f}\n", mean(&proxies),
           standard_error(&proxies), (double)learner.multiplier);
    return 0;
}
