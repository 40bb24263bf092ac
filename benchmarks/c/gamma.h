/* What a Beta distribution with shapes of at least 1 needs. */

/* A variable of the gamma distribution (Marsaglia and Tsang). */
static inline real gamma_variable(real shape, Random *random) {
    const real d = shape - (real)1 / 3, scale = 1 / sqrt(9 * d);
    for (;;) {
        const real z = normal(random), root = 1 + scale * z;
        if (root <= 0) continue;
        const real v = root * root * root, square = z * z, u = 1 - uniform(random);
        /* the first comparison implies the second, and nearly always spares its logarithms */
        if (u < 1 - (real)0.0331 * square * square) return d * v;
        if (log(u) < square / 2 + d * (1 - v + log(v))) return d * v;
    }
}

/* psi(x) = psi(x + 1) - 1 / x, up to where the asymptotic series holds. */
static inline real digamma(real x) {
    real shift = 0;
    for (; x < 8; x += 1) shift += 1 / x;
    const real y = 1 / (x * x);
    const real series = y * ((real)1 / 12 - y * ((real)1 / 120 - y * ((real)1 / 252 -
                        y * ((real)1 / 240 - y * ((real)1 / 132)))));
    return log(x) - 1 / (2 * x) - series - shift;
}
