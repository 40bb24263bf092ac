/* The consumption problem and its policy, with the settings of `agents.py`.
 *
 * The action is a normal number, the share of the rest that is put at risk, and a Beta number, the
 * fraction that is consumed. Both depend on 16 cosines, which lie along the rows of the matrices: a
 * row for the baseline, and one for each of the policy's outputs.
 */
enum {
    HORIZON = 200,
    FREQUENCIES = 4, /* of each input */
    MEAN = 1,        /* the rows of the outputs: softplus of the last three makes */
    WIDTH,           /* the deviation above its floor, */
    FIRST_SHAPE,     /* and the shapes above 1 */
    SECOND_SHAPE,
    ROWS,
    COLUMNS = FREQUENCIES * FREQUENCIES,
    SCORE_ROW = MEAN,
    SCORE_COLUMNS = COLUMNS,
    POLICY_PERIOD = 1000,
    PRETRAIN_EPISODES = 0
};

static const real LIQUID_DRIFT = 0.05, DRIFT = 1.0, VOLATILITY = 0.25, TIME_STEP = 0.005;
static const real DEFAULT_PROBABILITY = 0.0015, RUIN_WEALTH = 1e-4, WIDTH_FLOOR = 0.6;
static const real DISCOUNT = 1.0, TRACE_DECAY = 0.99;

typedef struct {
    real share, fraction;
} Action;
#include "gamma.h"
#include "matrix.h"

/* The first feature is 1. */
static const Matrix POLICY_START = {[FIRST_SHAPE] = {2}, [SECOND_SHAPE] = {30}};

typedef struct {
    real wealth;
    int time;
} State;

static const State START = {.wealth = 1.0};

static inline bool is_over(const State *state) {
    return state->time >= HORIZON || state->wealth < RUIN_WEALTH;
}

/* cos(k x) and sin(k x) for every frequency k */
static inline void waves(real x, real cosines[FREQUENCIES], real sines[FREQUENCIES]) {
    cosines[0] = 1;
    sines[0] = 0;
    cosines[1] = cos(x);
    sines[1] = sin(x);
    for (int k = 2; k < FREQUENCIES; k++) {
        cosines[k] = cosines[k - 1] * cosines[1] - sines[k - 1] * sines[1];
        sines[k] = sines[k - 1] * cosines[1] + cosines[k - 1] * sines[1];
    }
}

/* cos(pi (i t / T + j W / (1 + W))) for every i and j, by the addition theorem. */
static inline void observe(const State *state, real features[COLUMNS]) {
    const real pi = 3.14159265358979323846;
    real cos_time[FREQUENCIES], sin_time[FREQUENCIES], cos_wealth[FREQUENCIES],
        sin_wealth[FREQUENCIES];
    waves(pi * (real)state->time / HORIZON, cos_time, sin_time);
    waves(pi * state->wealth / (1 + state->wealth), cos_wealth, sin_wealth);
    for (int i = 0; i < FREQUENCIES; i++)
        for (int j = 0; j < FREQUENCIES; j++)
            features[FREQUENCIES * i + j] = cos_time[i] * cos_wealth[j] - sin_time[i] * sin_wealth[j];
}

static inline real clipped(real x) { return x < 0 ? 0 : x > 1 ? 1 : x; }

/* Consume, then default or let both assets grow. A default loses what is at risk, consumes the
 * rest and ends the episode. The target is an even share of the wealth, W / (T - t). */
static inline Signals step(State *state, Action action, Random *random) {
    const real share = clipped(action.share), consumed = clipped(action.fraction) * state->wealth;
    const real rest = state->wealth - consumed, target = state->wealth / (HORIZON - state->time);
    const bool lost = uniform(random) < DEFAULT_PROBABILITY;
    const real deviation = VOLATILITY * sqrt(TIME_STEP);
    const real excess = (DRIFT - LIQUID_DRIFT) * TIME_STEP + deviation * normal(random);
    const real reward = lost ? consumed + (1 - share) * rest : consumed;

    state->wealth = lost ? 0 : rest * (1 + LIQUID_DRIFT * TIME_STEP + share * excess);
    state->time++;
    return (Signals){.reward = reward, .shortfall = target > reward ? target - reward : 0};
}

/* softplus(x), and its slope, without an exponential that overflows */
static inline real softplus(real x, real *slope) {
    const real small = exp(-fabs(x));
    *slope = (x > 0 ? 1 : small) / (1 + small);
    return (x > 0 ? x : 0) + log1p(small);
}

/* Draw both numbers; the rows of the score are the derivatives of log pi in the outputs. */
static inline void decide(const Matrix policy, const State *state, Random *random, Decision *made) {
    real output[ROWS], width_slope, first_slope, second_slope;
    observe(state, made->right);
    for (int k = SCORE_ROW; k < ROWS; k++) {
        real part[COLUMNS];
        FOR_COLUMNS(c) part[c] = policy[k][c] * made->right[c];
        output[k] = sum(part);
    }
    const real width = WIDTH_FLOOR + softplus(output[WIDTH], &width_slope);
    const real first = 1 + softplus(output[FIRST_SHAPE], &first_slope);
    const real second = 1 + softplus(output[SECOND_SHAPE], &second_slope);

    const real z = normal(random);
    const real x = gamma_variable(first, random), y = gamma_variable(second, random);
    made->action = (Action){.share = output[MEAN] + width * z, .fraction = x / (x + y)};

    const real both = digamma(first + second) - log(x + y);
    made->left[0] = 1; /* the baseline */
    made->left[MEAN] = z / width;
    made->left[WIDTH] = (z * z - 1) / width * width_slope;
    made->left[FIRST_SHAPE] = (log(x) - digamma(first) + both) * first_slope;
    made->left[SECOND_SHAPE] = (log(y) - digamma(second) + both) * second_slope;
}
