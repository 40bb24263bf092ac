/* The portfolio problem and its policy, with the settings of the preset "figure". */
enum {
    HORIZON = 50,
    MATURITY = 4,
    ACTIONS = 11,
    ROWS = 1 + 1 + MATURITY + 1, /* constant, liquid, pending orders, deviation of the rate */
    COLUMNS = ACTIONS + 1,       /* a column per action, and one for the baseline */
    SCORE_ROW = 0,               /* the score: from this row on, */
    SCORE_COLUMNS = ACTIONS,     /* and so many columns of it */
    POLICY_PERIOD = 200,         /* environment steps from one policy step to the next */
    PRETRAIN_EPISODES = 1000     /* the critics learn alone */
};

static const real LIQUID_RATE = 1.005, LOW_RATE = 1.05, HIGH_RATE = 1.25, UNIT_COST = 0.02;
static const real UP_PROBABILITY = 0.1, DOWN_PROBABILITY = 0.6, DEFAULT_PROBABILITY = 0.1;
static const real DISCOUNT = 0.99, TRACE_DECAY = 1.0;

typedef int Action; /* units ordered */
#include "matrix.h"

static const Matrix POLICY_START; /* uniform */

typedef struct {
    real liquid;
    real pending[MATURITY]; /* the first matures next */
    bool rate_is_high;
    int high_steps, time;
} State;

static const State START = {.liquid = 1.0};

static inline bool is_over(const State *state) { return state->time >= HORIZON; }

static inline void observe(const State *state, real features[ROWS]) {
    const real past = (real)state->high_steps / (real)(state->time > 0 ? state->time : 1);
    features[0] = 1;
    features[1] = state->liquid;
    for (int i = 0; i < MATURITY; i++) features[2 + i] = state->pending[i];
    features[2 + MATURITY] = (HIGH_RATE - LOW_RATE) * ((real)state->rate_is_high - past);
}

/* Buy what can be afforded, earn interest, collect or lose what matures; then the rate may switch.
 * With p the probability of a default and r = (1 - p) paid + p lost, the shortfall (r - R)+ is 0 if
 * the order pays, and r - lost = (1 - p) (paid - lost) if it defaults. */
static inline Signals step(State *state, Action order, Random *random) {
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

#include "gibbs.h"
