// Rows of a box whose points have two colors as on a checkerboard, and the faces between them (formats/checkered/faces.py). Comes
// after slices.cuh.
//
// A line has `half` points of each color; point q of a color in line j of plane k is at first[color] + q + half * (j + ny * k).
// Points 2 q and 2 q + 1 of a line are a pair: they have different colors and the same place within their colors. The
// neighbors of a row along y and z have its place in the next line or plane of the other color; one along x is the other
// point of its pair, the other one the nearer point of the next pair.
//
// Products are added in the order of a row's offsets (below along z, y, x, above along x, y, z), as slices have them, so that
// the bits are theirs: what is not there has entry 0.
#pragma once

#define BOARD int half, int ny, int nz, int red, int black, int odd, int wraps
#define BOARD_OF_ARGUMENTS Board{half, ny, nz, {red, black}, odd, wraps}

struct Board {
    int half, ny, nz;   // points of a color in a line, lines of a plane, planes
    int first[2];       // where the rows of a color begin
    int odd;            // the color of the first point
    int wraps;          // the axes whose last points are next to the first ones: 1 for x, 2 for y, 4 for z

    DEVICE int plane() const { return half * ny; }
    // The color of the points 2 q of a line.
    DEVICE int color(int j, int k) const { return (odd + j + k) & 1; }
    DEVICE int place(int color, int q, int j, int k) const {
        return (color == 0 ? first[0] : first[1]) + q + half * (j + ny * k);
    }
};

// How far the next place below or above i of n places is, `step` apart: 0 if there is none.
DEVICE int below(int i, int n, int step, bool wraps) { return i > 0 ? -step : wraps ? (n - 1) * step : 0; }
DEVICE int above(int i, int n, int step, bool wraps) { return i < n - 1 ? step : wraps ? (1 - n) * step : 0; }

constexpr int ENTRIES = 6;

// One row: where its neighbors are, and its entries there.
template <typename Value>
struct Row {
    int own, other;    // its place, and that of the other point of its pair
    int at[ENTRIES];   // those of its neighbors; `other` where there is none
    Value a[ENTRIES];

    DEVICE Row(const Board& b, const Value* faces, i64 size, int color, int q, int j, int k) {
        const bool second = b.color(j, k) != color;   // whether it is the second point of its pair
        own = b.place(color, q, j, k);
        other = b.place(1 - color, q, j, k);
        const int down = below(k, b.nz, b.plane(), b.wraps & 4), front = below(j, b.ny, b.half, b.wraps & 2);
        const int left = second ? 0 : below(q, b.half, 1, b.wraps & 1), right = second ? above(q, b.half, 1, b.wraps & 1) : 0;
        at[0] = other + down;
        at[1] = other + front;
        at[2] = other + left;
        at[3] = other + right;
        at[4] = other + above(j, b.ny, b.half, b.wraps & 2);
        at[5] = other + above(k, b.nz, b.plane(), b.wraps & 4);
        const bool leftmost = !second && q == 0 && !(b.wraps & 1);
        a[0] = k == 0 && !(b.wraps & 4) ? Value(0) : __ldg(faces + 2 * size + at[0]);
        a[1] = j == 0 && !(b.wraps & 2) ? Value(0) : __ldg(faces + size + at[1]);
        a[2] = leftmost ? Value(0) : __ldg(faces + at[2]);
        a[3] = __ldg(faces + own);
        a[4] = __ldg(faces + size + own);
        a[5] = __ldg(faces + 2 * size + own);
    }

    // x of the neighbors.
    DEVICE void load(const real* x, real* values) const {
        UNROLLED for (int i = 0; i < ENTRIES; ++i) values[i] = x[at[i]];
    }

    // sum + the products, in order.
    DEVICE real add(real sum, const real* values) const {
        UNROLLED for (int i = 0; i < ENTRIES; ++i) sum = fma(static_cast<real>(a[i]), values[i], sum);
        return sum;
    }
};

// A block's threads: a warp along x and LINES lines; every thread walks along z.
constexpr int LINES = 8, THREADS = LINES * SLICE;
