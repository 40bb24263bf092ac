/* Features that are an outer product, and what is linear in them. After ROWS and COLUMNS.
 *
 * Weights are stored as a matrix, the longer factor of the features along its rows: every inner
 * loop runs over a row without a reduction, and a compiler vectorises it even without -ffast-math.
 * COLUMNS is a multiple of 4; the first of the other factor is always 1.
 */

/* A loop over a row. Unless told not to, GCC unrolls it completely first, and then finds nothing
 * that it could vectorise. */
#define FOR_COLUMNS(c) _Pragma("GCC unroll 1") for (int c = 0; c < COLUMNS; c++)

typedef real Matrix[ROWS][COLUMNS];

/* What one decision leaves to the critics: the chosen action, and the two factors of its
 * compatible features. */
typedef struct {
    real left[ROWS], right[COLUMNS];
    Action action;
} Decision;

/* left' matrix: a sum per column. */
static inline void product(const Matrix matrix, const real left[ROWS], real out[COLUMNS]) {
    FOR_COLUMNS(c) {
        real total = matrix[0][c]; /* left[0] is 1 */
        for (int k = 1; k < ROWS; k++) total += left[k] * matrix[k][c];
        out[c] = total;
    }
}

/* Four sums side by side: in strict arithmetic one sum would wait for every addition in turn. */
static inline real sum(const real row[COLUMNS]) {
    real lane[4];
    for (int i = 0; i < 4; i++) {
        lane[i] = row[i];
        for (int c = i + 4; c < COLUMNS; c += 4) lane[i] += row[c];
    }
    return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

/* left' matrix right */
static inline real value(const Matrix weights, const Decision *at) {
    real part[COLUMNS];
    product(weights, at->left, part);
    FOR_COLUMNS(c) part[c] *= at->right[c];
    return sum(part);
}
