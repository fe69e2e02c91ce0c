// What becomes of the sums of WIDTH vectors at once: finish.cuh, column by column. Comes after slices.cuh and finish.cuh.
#pragma once

#ifndef WIDTH
#define WIDTH 8
#endif

#define EACH_COLUMN UNROLLED for (int n = 0; n < WIDTH; ++n)
#define EACH_PART UNROLLED for (int p = 0; p < PARTS; ++p)

// The vectors of a finish, x's columns `from` items apart and those of the others `to`; w is of all of them.
struct Finishes {
    Finish first;
    i64 from, to;

    DEVICE Finish of(int n) const {
        return {first.x + n * from, first.r + n * to, first.w, first.y + n * to, first.kept + n * to};
    }

    // Item i of what is multiplied, in each column.
    template <int KIND>
    DEVICE void load(real (&items)[WIDTH], i64 i) const {
        if constexpr (KIND == FIRST) {
            const real weight = first.w[i];
            EACH_COLUMN items[n] = weight * first.r[n * to + i];
        } else {
            EACH_COLUMN items[n] = first.x[n * from + i];
        }
    }
};

// Complex vectors are the columns' first half, the real parts, and their second half; so is w, of one column, with wi.
struct ComplexFinishes {
    Finishes of;
    const real* wi;

    static constexpr int HALF = WIDTH / 2;

    // w r of an item, in double as of complex_step in complex.cu.
    DEVICE void weighted(double re, double im, i64 i, double& out, double& out_im) const {
        const double w = of.first.w[i], other = wi[i];
        out = fma(w, re, -(other * im)), out_im = fma(w, im, other * re);
    }

    template <int KIND>
    DEVICE void load(real (&items)[WIDTH], i64 i) const {
        if constexpr (KIND == FIRST) {
            for (int n = 0; n < HALF; ++n) {
                double re, im;
                weighted(of.of(n).r[i], of.of(n + HALF).r[i], i, re, im);
                items[n] = static_cast<real>(re), items[n + HALF] = static_cast<real>(im);
            }
        } else {
            of.load<KIND>(items, i);
        }
    }

    // Writes a row of the sums B x and C x in each column, of A = B + i C. Those of C are added last, as by a pass of its own.
    template <int KIND>
    DEVICE void write(i64 row, const real (&sums)[2][WIDTH]) const {
        for (int n = 0; n < HALF; ++n) {
            const Finish one = of.of(n), other = of.of(n + HALF);
            real re = sums[0][n], im = sums[0][n + HALF];
            if constexpr (KIND == PRODUCT) {
                re -= sums[1][n + HALF], im += sums[1][n];
            } else {
                re = one.r[row] - re, im = other.r[row] - im;
                re += sums[1][n + HALF], im -= sums[1][n];
            }
            if constexpr (KIND == SWEEP || KIND == FIRST) {
                double step, step_im;
                if constexpr (KIND == SWEEP) weighted(re, im, row, step, step_im);
                else weighted(one.r[row], other.r[row], row, step, step_im);
                if constexpr (KIND == SWEEP) {
                    re = static_cast<real>(one.x[row] + step), im = static_cast<real>(other.x[row] + step_im);
                } else {
                    one.kept[row] = static_cast<real>(step), other.kept[row] = static_cast<real>(step_im);
                }
            }
            one.y[row] = re, other.y[row] = im;
        }
    }
};

#define COLUMNS FINISH, i64 from, i64 to
#define ALL_COLUMNS Finishes{FINISHED, from, to}
