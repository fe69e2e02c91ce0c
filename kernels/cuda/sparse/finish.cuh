// What becomes of a row's sum A x: the row of y = A x, or of a residual or a sweep of Jacobi (see the contract). Comes after
// slices.cuh.
#pragma once

// y = A x; y = r + A x; y = r - A x; y = x + w (r - A x); with x = w r, which goes to `kept`, y = r - A x.
constexpr int PRODUCT = 0, SUM = 1, RESIDUAL = 2, SWEEP = 3, FIRST = 4;

// w r where it is read, item by item: 16 bytes from caches in place of a vector of its own.
struct Weighted {
    const real* r;
    const real* w;

    DEVICE real operator[](i64 i) const { return w[i] * r[i]; }
    DEVICE Weighted operator+(i64 i) const { return {r + i, w + i}; }
};

// The vectors of a finish; those that it has no use for are null. y may be r of a SUM.
struct Finish {
    const real* x;
    const real* r;
    const real* w;
    real* y;
    real* kept;

    template <int KIND>
    DEVICE auto read() const {
        if constexpr (KIND == FIRST) return Weighted{r, w};
        else return x;
    }

    // What the row's result is multiplied by in a dot product: x . A x, and r . z after a sweep to z.
    template <int KIND>
    DEVICE double beside(i64 row) const { return KIND == SWEEP ? r[row] : x[row]; }

    // Writes the row, and returns it.
    template <int KIND>
    DEVICE real write(i64 row, real sum) const {
        real result = sum;
        if constexpr (KIND == SUM) result = r[row] + sum;
        if constexpr (KIND == RESIDUAL) result = r[row] - sum;
        if constexpr (KIND == SWEEP) result = fma(w[row], r[row] - sum, x[row]);
        if constexpr (KIND == FIRST) return write_first(row, sum, r[row], w[row]);
        y[row] = result;
        return result;
    }

    // The same of FIRST, with the row's own items of r and w.
    DEVICE real write_first(i64 row, real sum, real own, real weight) const {
        kept[row] = weight * own;
        return y[row] = own - sum;
    }
};

#define FINISH const real* x, const real* r, const real* w, real* y, real* kept
#define FINISHED Finish{x, r, w, y, kept}
