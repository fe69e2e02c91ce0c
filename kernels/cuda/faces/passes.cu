// Table of kernels: passes over matrices of faces. A row's entries are three numbers: those of its other half are its neighbors' numbers, which
// are in a cache, since the blocks that run at a time are next to each other. Bytes are counted for values of 8 bytes a row.
//
// Unlike slices, faces need no headers and no columns, so that nothing waits for anything but the vectors, and passes of
// floats reach the memory's bandwidth though they move little for each row.

#include "slices.cuh"
#include "faces/faces.cuh"

// What a pass makes of a row's product.
enum class Result { PRODUCT, RESIDUAL, SWEEP };

struct Vectors {
    const real* d;   // of a sweep
    const real* r;   // of a residual and a sweep
    real* y;
};

// Writes the result of a row and returns its part of the dot product that goes with it: x . y, or r . y of a sweep.
template <Result RESULT>
DEVICE double finished(const Vectors& v, int p, real x, real sum) {
    if constexpr (RESULT == Result::PRODUCT) {
        __stcs(v.y + p, sum);
        return static_cast<double>(x) * sum;
    }
    const real right = v.r[p];
    if constexpr (RESULT == Result::RESIDUAL) {
        v.y[p] = right - sum;
        return 0.0;
    }
    const real result = x + (right - sum) / __ldcs(v.d + p);
    v.y[p] = result;
    return static_cast<double>(right) * result;
}

// The number of a warp's partial dot product in plane k: (planes, lines, warps of a line).
DEVICE i64 part_number(const Board& b, int j, int k) {
    return (static_cast<i64>(k) * b.ny + j) * gridDim.x + blockIdx.x;
}

// A x of pairs, plane after plane: 3 faces (24) + diagonal, x, y (24) = 48 bytes a row, where run slices of doubles move 73.
// x of three planes and the faces below the current one stay in registers; those of the next line come from L1, since a
// block has LINES lines. With one plane a thread, L2 would have to move 96 bytes a row, which takes longer than memory.
template <Result RESULT, bool WITH_DOT, typename Value>
DEVICE void walk(
    const Board& b, int planes, const Value* faces, i64 size, const real* diagonal, const real* x,
    const Vectors& v, double* partials
) {
    next_may_start();
    const int q = blockIdx.x * SLICE + lane_number(), j = blockIdx.y * LINES + threadIdx.x / SLICE;
    const int first = blockIdx.z * planes, last = min(first + planes, b.nz);
    const bool there = q < b.half && j < b.ny;
    if (j >= b.ny) {   // the whole warp
        wait_for_last_launch();
        return;
    }
    const int column = q + b.half * j, plane = b.plane();
    const bool around = b.wraps & 4;
    const Value* const faces_y = faces + size;
    const Value* const faces_z = faces + 2 * size;
    // Where the points of a pair are in plane k, which may be one that wraps.
    const auto places = [&](int k, int& even, int& uneven) {
        const int in = k < 0 ? b.nz - 1 : k == b.nz ? 0 : k, color = b.color(j, in);
        even = b.place(color, 0, 0, 0) + column + plane * in;
        uneven = b.place(1 - color, 0, 0, 0) + column + plane * in;
    };
    const bool below_first = there && (first > 0 || around);
    int even, uneven;
    Value low_even = 0, low_uneven = 0;   // the faces below
    places(first - 1, even, uneven);
    if (below_first) {
        low_even = __ldg(faces_z + even);
        low_uneven = __ldg(faces_z + uneven);
    }
    wait_for_last_launch();
    real before_even = 0, before_uneven = 0, here_even = 0, here_uneven = 0;
    if (below_first) {
        before_even = x[even];
        before_uneven = x[uneven];
    }
    places(first, even, uneven);
    if (there) {
        here_even = x[even];
        here_uneven = x[uneven];
    }
    const bool wraps_x = b.wraps & 1, wraps_y = b.wraps & 2;
    const int left = below(q, b.half, 1, wraps_x), right = above(q, b.half, 1, wraps_x);
    const int front = below(j, b.ny, b.half, wraps_y), back = above(j, b.ny, b.half, wraps_y);
    const bool has_left = q > 0 || wraps_x, has_front = j > 0 || wraps_y;
    for (int k = first; k < last; ++k) {
        double part = 0.0;
        int next_even, next_uneven;
        places(k + 1, next_even, next_uneven);
        if (there) {
            real after_even = 0, after_uneven = 0;
            if (k + 1 < b.nz || around) {
                after_even = x[next_even];
                after_uneven = x[next_uneven];
            }
            const Value x_even = __ldg(faces + even), x_uneven = __ldg(faces + uneven);
            const Value y_even = __ldg(faces_y + even), y_uneven = __ldg(faces_y + uneven);
            const Value z_even = __ldg(faces_z + even), z_uneven = __ldg(faces_z + uneven);
            const real d_even = __ldcs(diagonal + even), d_uneven = __ldcs(diagonal + uneven);
            // Along y a neighbor has the other color: that of an even point is with the uneven points of this line.
            const Value front_even = has_front ? __ldg(faces_y + uneven + front) : Value(0);
            const Value front_uneven = has_front ? __ldg(faces_y + even + front) : Value(0);
            const Value left_even = has_left ? __ldg(faces + uneven + left) : Value(0);
            const real x_left = x[uneven + left], x_right = x[even + right];
            const real in_front_even = x[uneven + front], in_front_uneven = x[even + front];
            const real behind_even = x[uneven + back], behind_uneven = x[even + back];
            real sum = d_even * here_even;
            sum = fma(static_cast<real>(low_even), before_even, sum);
            sum = fma(static_cast<real>(front_even), in_front_even, sum);
            sum = fma(static_cast<real>(left_even), x_left, sum);
            sum = fma(static_cast<real>(x_even), here_uneven, sum);
            sum = fma(static_cast<real>(y_even), behind_even, sum);
            sum = fma(static_cast<real>(z_even), after_even, sum);
            real sum_uneven = d_uneven * here_uneven;
            sum_uneven = fma(static_cast<real>(low_uneven), before_uneven, sum_uneven);
            sum_uneven = fma(static_cast<real>(front_uneven), in_front_uneven, sum_uneven);
            sum_uneven = fma(static_cast<real>(x_even), here_even, sum_uneven);
            sum_uneven = fma(static_cast<real>(x_uneven), x_right, sum_uneven);
            sum_uneven = fma(static_cast<real>(y_uneven), behind_uneven, sum_uneven);
            sum_uneven = fma(static_cast<real>(z_uneven), after_uneven, sum_uneven);
            part = finished<RESULT>(v, even, here_even, sum);
            part += finished<RESULT>(v, uneven, here_uneven, sum_uneven);
            // Along z, too: what is below an even point of the next plane is the even point of this one.
            before_even = here_even;
            before_uneven = here_uneven;
            here_even = after_even;
            here_uneven = after_uneven;
            low_even = z_even;
            low_uneven = z_uneven;
        }
        if (WITH_DOT) {
            part = warp_sum(part);
            if (lane_number() == 0) partials[part_number(b, j, k)] = part;
        }
        even = next_even;
        uneven = next_uneven;
    }
}

#define PASS(NAME) ENTRY __launch_bounds__(THREADS, 3) NAME
#define OF(VALUE) BOARD, int planes, In<VALUE> faces, i64 size, In<real> diagonal
#define GIVEN BOARD_OF_ARGUMENTS, planes, faces, size, diagonal

PASS(spmv)(OF(real), const real* x, real* y) {
    walk<Result::PRODUCT, false>(GIVEN, x, {nullptr, nullptr, y}, nullptr);
}

// With x . y of each warp in `partials`, which the kernel `sum` adds.
PASS(spmv_dot)(OF(real), const real* x, real* y, double* partials) {
    walk<Result::PRODUCT, true>(GIVEN, x, {nullptr, nullptr, y}, partials);
}

// Both with values that are stored as float because that lost nothing (`Backend.compacted`): 36 bytes a row.
PASS(spmv_compact)(OF(float), const real* x, real* y) {
    walk<Result::PRODUCT, false>(GIVEN, x, {nullptr, nullptr, y}, nullptr);
}

PASS(spmv_dot_compact)(OF(float), const real* x, real* y, double* partials) {
    walk<Result::PRODUCT, true>(GIVEN, x, {nullptr, nullptr, y}, partials);
}

// y = r - A x: 56 bytes a row.
PASS(residual)(OF(real), const real* r, const real* x, real* y) {
    walk<Result::RESIDUAL, false>(GIVEN, x, {nullptr, r, y}, nullptr);
}

// z = x + (r - A x) / d: 64 bytes a row.
PASS(jacobi_sweep)(OF(real), In<real> d, const real* r, const real* x, real* z) {
    walk<Result::SWEEP, false>(GIVEN, x, {d, r, z}, nullptr);
}

PASS(jacobi_sweep_dot)(OF(real), In<real> d, const real* r, const real* x, real* z, double* partials) {
    walk<Result::SWEEP, true>(GIVEN, x, {d, r, z}, partials);
}

// Products with several vectors, whose columns are `size` apart: faces are read once, and a column has the bits of `walk`.
// Of several vectors these are what is read, so that a thread has one pair.
template <bool WITH_DOT, typename Value>
DEVICE void columns(
    const Board& b, const Value* faces, i64 size, const real* diagonal, const real* x, real* y, double* partials, int width
) {
    next_may_start();
    const int q = blockIdx.x * SLICE + lane_number(), j = blockIdx.y * LINES + threadIdx.x / SLICE, k = blockIdx.z;
    if (j >= b.ny) {   // the whole warp
        wait_for_last_launch();
        return;
    }
    const bool there = q < b.half;
    const int color = b.color(j, k), inside = there ? q : 0;
    const Row<Value> even(b, faces, size, color, inside, j, k), uneven(b, faces, size, 1 - color, inside, j, k);
    const real d_even = __ldg(diagonal + even.own), d_uneven = __ldg(diagonal + uneven.own);
    wait_for_last_launch();
    const i64 parts = static_cast<i64>(b.nz) * b.ny * gridDim.x;
    for (int n = 0; n < width; ++n, x += size, y += size) {
        double part = 0.0;
        if (there) {
            real of_even[ENTRIES], of_uneven[ENTRIES];
            const real x_even = x[even.own], x_uneven = x[uneven.own];
            even.load(x, of_even);
            uneven.load(x, of_uneven);
            const real sum = even.add(d_even * x_even, of_even), sum_uneven = uneven.add(d_uneven * x_uneven, of_uneven);
            const Vectors v = {nullptr, nullptr, y};
            part = finished<Result::PRODUCT>(v, even.own, x_even, sum);
            part += finished<Result::PRODUCT>(v, uneven.own, x_uneven, sum_uneven);
        }
        if (WITH_DOT) {
            part = warp_sum(part);
            if (lane_number() == 0) partials[n * parts + part_number(b, j, k)] = part;
        }
    }
}

#define COLUMNS(NAME) ENTRY __launch_bounds__(THREADS) NAME
#define COLUMNS_OF(VALUE) BOARD, In<VALUE> faces, i64 size, In<real> diagonal, const real* x, real* y

COLUMNS(columns_spmv)(COLUMNS_OF(real), int width) {
    columns<false>(BOARD_OF_ARGUMENTS, faces, size, diagonal, x, y, nullptr, width);
}

COLUMNS(columns_spmv_dot)(COLUMNS_OF(real), double* partials, int width) {
    columns<true>(BOARD_OF_ARGUMENTS, faces, size, diagonal, x, y, partials, width);
}

COLUMNS(columns_spmv_compact)(COLUMNS_OF(float), int width) {
    columns<false>(BOARD_OF_ARGUMENTS, faces, size, diagonal, x, y, nullptr, width);
}

COLUMNS(columns_spmv_dot_compact)(COLUMNS_OF(float), double* partials, int width) {
    columns<true>(BOARD_OF_ARGUMENTS, faces, size, diagonal, x, y, partials, width);
}

// Half sweeps: one color at a time, of which a row reads only the other one. Half of the rows have a lower or an upper half,
// which is the whole row, so every face is read once in a pass. Vectors may have several columns, `size` apart.

// x = r / d of one color: 12 bytes a row of the box. A thread has ITEMS rows: with one, too few bytes were on their way.
constexpr int ITEMS = 4;

ENTRY divide(In<real> diagonal, i64 size, const real* r, real* x, int first, int count, int width) {
    next_may_start();
    const int begin = blockIdx.x * ITEMS * blockDim.x + threadIdx.x;
    real d[ITEMS];
    UNROLLED for (int n = 0; n < ITEMS; ++n) {
        const int i = begin + n * blockDim.x;
        d[n] = i < count ? __ldg(diagonal + first + i) : real(1);
    }
    wait_for_last_launch();
    for (int column = 0; column < width; ++column, r += size, x += size) {
        real right[ITEMS];
        UNROLLED for (int n = 0; n < ITEMS; ++n) {
            const int i = begin + n * blockDim.x;
            right[n] = i < count ? __ldcs(r + first + i) : real(0);
        }
        UNROLLED for (int n = 0; n < ITEMS; ++n) {
            const int i = begin + n * blockDim.x;
            if (i < count) x[first + i] = quotient(right[n], d[n]);
        }
    }
}

// This thread's row of a color, and its x, for one vector; or column after column. `finish` gets the row's product as well as
// how far its column's items are from those of the first.
template <bool MANY, typename Ahead, typename Finish>
DEVICE void half_row(
    const Board& b, const real* faces, i64 size, const real* x, int color, int width, const Ahead& ahead,
    const Finish& finish
) {
    next_may_start();
    const int q = blockIdx.x * SLICE + lane_number(), j = blockIdx.y * LINES + threadIdx.x / SLICE, k = blockIdx.z;
    const bool there = q < b.half && j < b.ny;
    const Row<real> row(b, faces, size, color, there ? q : 0, there ? j : 0, k);
    const real known = ahead(row);
    wait_for_last_launch();
    if (!there) return;
    for (int n = 0; n < (MANY ? width : 1); ++n) {
        const i64 column = n * size;
        real values[ENTRIES];
        row.load(x + column, values);
        finish(row, known, values, column);
    }
}

#define HALF(NAME) ENTRY __launch_bounds__(THREADS) NAME
#define HALF_OF BOARD, In<real> faces, i64 size
#define HALF_GIVEN BOARD_OF_ARGUMENTS, faces, size
#define NOTHING_AHEAD [&](const Row<real>&) { return real(0); }
#define FINISH [&](const Row<real>& row, real known, const real (&values)[ENTRIES], i64 column)

// x = (r - A x) / d of one color, of which A has no entries: 24 bytes + r, d, x and the other color's x (32), of half the rows.
template <bool MANY>
DEVICE void solve_rows(
    const Board& b, const real* faces, i64 size, const real* diagonal, const real* r, real* x, int color, int width
) {
    half_row<MANY>(b, faces, size, x, color, width, [&](const Row<real>& row) { return __ldg(diagonal + row.own); }, FINISH {
        const real right = __ldcs(r + column + row.own);
        x[column + row.own] = quotient(right - row.add(0, values), known);
    });
}

HALF(solve)(HALF_OF, In<real> diagonal, const real* r, real* x, int color) {
    solve_rows<false>(HALF_GIVEN, diagonal, r, x, color, 1);
}

HALF(columns_solve)(HALF_OF, In<real> diagonal, const real* r, real* x, int color, int width) {
    solve_rows<true>(HALF_GIVEN, diagonal, r, x, color, width);
}

// y = -(U x), which only red rows have: 24 bytes of half the rows + black x, y of all.
template <bool MANY>
DEVICE void upper(const Board& b, const real* faces, i64 size, const real* x, real* y, int width) {
    half_row<MANY>(b, faces, size, x, 0, width, NOTHING_AHEAD, FINISH {
        __stcs(y + column + row.own, -row.add(0, values));
        __stcs(y + column + row.other, real(0));
    });
}

HALF(upper_residual)(HALF_OF, const real* x, real* y) { upper<false>(HALF_GIVEN, x, y, 1); }

HALF(columns_upper_residual)(HALF_OF, const real* x, real* y, int width) { upper<true>(HALF_GIVEN, x, y, width); }

// w = r - L x, which only black rows have: 24 bytes of half the rows + red x, r and w of all.
template <bool MANY>
DEVICE void lower(const Board& b, const real* faces, i64 size, const real* r, const real* x, real* w, int width) {
    half_row<MANY>(b, faces, size, x, 1, width, NOTHING_AHEAD, FINISH {
        const real right = __ldcs(r + column + row.own), red = __ldcs(r + column + row.other);
        __stcs(w + column + row.own, right - row.add(0, values));
        __stcs(w + column + row.other, red);
    });
}

HALF(lower_residual)(HALF_OF, const real* r, const real* x, real* w) { lower<false>(HALF_GIVEN, r, x, w, 1); }

HALF(columns_lower_residual)(HALF_OF, const real* r, const real* x, real* w, int width) {
    lower<true>(HALF_GIVEN, r, x, w, width);
}
