/* The type of all numbers, and random ones. -DREAL=float computes in single precision. */
#include <float.h>
#include <stdbool.h>
#include <stdint.h>
#include <tgmath.h>

#ifndef REAL
#define REAL double
#endif
typedef REAL real;

/* xoshiro256+, its state filled by splitmix64 (Blackman and Vigna); normal numbers come in pairs,
 * of which one is kept for the next time. */
typedef struct {
    uint64_t word[4];
    bool has_spare;
    real spare;
} Random;

static Random seeded(uint64_t seed) {
    Random random = {.has_spare = false};
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

/* A standard normal number, by Marsaglia's polar method. */
static inline real normal(Random *random) {
    if (random->has_spare) {
        random->has_spare = false;
        return random->spare;
    }
    real x, y, squares;
    do {
        x = 2 * uniform(random) - 1;
        y = 2 * uniform(random) - 1;
        squares = x * x + y * y;
    } while (squares >= 1 || squares == 0);
    const real scale = sqrt(-2 * log(squares) / squares);
    random->spare = y * scale;
    random->has_spare = true;
    return x * scale;
}
