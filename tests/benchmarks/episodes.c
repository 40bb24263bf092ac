/* Episodes of the C learner under a policy that stands still, told step by step:
 *
 *     ./episodes SEED EPISODES < POLICY
 *
 * prints as JSON a row for each step, [left, right, action, reward, shortfall, over], the critics
 * after the last one, and the policy after a step of length 0.05 with a multiplier of 0.7.
 */
#define main learner_main
#include "learner.c"
#undef main

static void print_number(double x) { printf("%.17g, ", x); }

static void print_numbers(const real *numbers, int n) {
    for (int i = 0; i < n; i++) print_number(numbers[i]);
}

/* An index, or a struct of numbers. */
static void print_action(const void *action) {
    if (sizeof(Action) == sizeof(int))
        print_number(*(const int *)action);
    else
        print_numbers(action, sizeof(Action) / sizeof(real));
}

static void print_matrix(const char *name, const Matrix matrix) {
    printf("\"%s\": [", name);
    for (int k = 0; k < ROWS; k++)
        for (int c = 0; c < COLUMNS; c++)
            printf("%.17g%s", (double)matrix[k][c], k == ROWS - 1 && c == COLUMNS - 1 ? "]" : ", ");
}

/* What `run_episode` will do with these random numbers. */
static void tell(const Matrix policy, Random random, bool first) {
    State state = START;
    for (bool over = false; !over; first = false) {
        Decision made;
        decide(policy, &state, &random, &made);
        const Signals signals = step(&state, made.action, &random);
        over = is_over(&state);
        printf(first ? "[" : ", [");
        print_numbers(made.left, ROWS);
        print_numbers(made.right, COLUMNS);
        print_action(&made.action);
        print_number(signals.reward);
        print_number(signals.shortfall);
        printf("%d]", over);
    }
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    Random random = seeded(strtoull(argv[1], NULL, 10));
    const long episodes = strtol(argv[2], NULL, 10);
    static Learner learner = {.multiplier = 0.7};
    for (int k = 0; k < ROWS; k++)
        for (int c = 0; c < COLUMNS; c++) {
            double weight;
            if (scanf("%lf", &weight) != 1) return 2;
            learner.policy[k][c] = weight;
        }
    long steps = 0;
    printf("{\"steps\": [");
    for (long episode = 0; episode < episodes; episode++) {
        tell(learner.policy, random, episode == 0);
        run_episode(&learner, &random, &steps, false, 0);
    }
    printf("], ");
    print_matrix("reward_critic", learner.reward_critic);
    printf(", ");
    print_matrix("risk_critic", learner.risk_critic);
    improve(&learner, 0.05);
    printf(", ");
    print_matrix("policy", learner.policy);
    printf("}\n");
    return 0;
}
