/* Actions with probabilities proportional to exp(preference). After ACTIONS and `observe`.
 *
 * The compatible features are the features of the observation times [one_hot(action) - pi | 1]: a
 * row of a matrix per feature, a column per action, the baseline in the last one.
 */
enum { BASELINE = ACTIONS };

static inline void decide(const Matrix policy, const State *state, Random *random, Decision *made) {
    real chance[COLUMNS]; /* first the preferences, then their exponentials */
    observe(state, made->left);
    product(policy, made->left, chance);
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
    FOR_COLUMNS(c) made->right[c] = (real)(c == action) - scale * chance[c];
    made->right[BASELINE] = 1;
    made->action = action;
}
