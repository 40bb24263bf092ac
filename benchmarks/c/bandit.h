/* The bandit, one pull of three arms: normal(1, 1), normal(4, 6), Pareto(1, 1.5). Settings are those
 * of `agents.py`. */
enum {
    HORIZON = 1,
    ACTIONS = 3,
    ROWS = 1,              /* nothing is seen */
    COLUMNS = ACTIONS + 1, /* a column per arm, and one for the baseline */
    SCORE_ROW = 0,
    SCORE_COLUMNS = ACTIONS,
    POLICY_PERIOD = 200,
    PRETRAIN_EPISODES = 0
};

static const real MEAN[ACTIONS] = {1, 4, 3}, DEVIATION[ACTIONS - 1] = {1, 6}, SHAPE = 1.5;
static const real DISCOUNT = 1.0, TRACE_DECAY = 1.0;

typedef int Action; /* the arm */
#include "matrix.h"

static const Matrix POLICY_START; /* uniform */

typedef struct {
    bool is_pulled;
} State;

static const State START = {.is_pulled = false};

static inline bool is_over(const State *state) { return state->is_pulled; }

static inline void observe(const State *state, real features[ROWS]) {
    (void)state;
    features[0] = 1;
}

/* The shortfall is below the arm's own mean; a Pareto number inverts its tail, U^(-1 / shape). */
static inline Signals step(State *state, Action arm, Random *random) {
    state->is_pulled = true;
    const real reward = arm < ACTIONS - 1 ? MEAN[arm] + DEVIATION[arm] * normal(random)
                                          : pow(1 - uniform(random), -1 / SHAPE);
    const real short_by = MEAN[arm] - reward;
    return (Signals){.reward = reward, .shortfall = short_by > 0 ? short_by : 0};
}

#include "gibbs.h"
