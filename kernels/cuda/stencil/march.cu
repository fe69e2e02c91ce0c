// SpMV with constant stencils where the device copies boxes into shared memory by itself (9.0 and later): x is read and y
// written once, 16 bytes a row.
//
// A block stays on its multiprocessor and takes one part of the grid after another: a tile of `width` points along x and LINES
// lines along y, through `walk` planes along z. One thread asks for a tile's planes with a frame of one vector and one line
// around them, SLOTS planes ahead and on into the next part; the others add them up, hand the slot back and write. Nothing waits
// for a whole block. What lies outside the grid arrives as zeros.
//
// Which block takes which part does not matter to the result. Parts are drawn in order, x fastest, then y, then z, so that what
// blocks read at the same time lies close together, and a fast multiprocessor takes more of them. Walks are short although
// neighbors along z then read two planes twice: long walks let blocks drift apart, and what neighbors share leaves L2
// (bench/stencil.py).

#include "slices.cuh"
#include "stencil/stencil.cuh"
#include "stencil/products.cuh"
#include "stencil/bulk.cuh"

#define FOLLOW_LAST() next_may_start(); wait_for_last_launch();

// As in kernels/cuda/stencil/setup.py. A box has at most 256 values along an axis.
constexpr int VECTOR = 16, WIDE = VECTOR / sizeof(real);         // bytes and number of a thread's values in a line
constexpr int LANES = 256 / WIDE, LINES = 6 * WIDE;               // vectors along x and lines of a tile
constexpr int SLOTS = 3;                                         // planes in shared memory
constexpr int STAR_ROWS = 4, BOX_ROWS = 6;                       // lines of a thread
constexpr int FRAMED = LINES + 2, UNIT = 128;                    // boxes in shared memory begin at multiples of UNIT
constexpr int ENDS = (FRAMED * VECTOR + UNIT - 1) / UNIT * UNIT; // bytes of the vectors at one end of lines

// How the grid is cut into parts.
struct Cut {
    int width, walk;     // points along x, of UNIT bytes, and planes of a part
    int across, along;   // parts along x and y
};

struct Part {
    int i, j, first, last;   // the tile's first point; planes first .. last - 1
    int valid;               // points along x

    DEVICE Part(const Stencil& a, const Cut& cut, int number) {
        const int layer = number / (cut.across * cut.along);
        i = number % cut.across * cut.width;
        j = number / cut.across % cut.along * LINES;
        first = layer * cut.walk;
        last = min(first + cut.walk, a.nz);
        valid = min(cut.width, a.nx - i);
    }
};

// The ring of planes in shared memory. In a slot: the framed lines, then the vectors before and those after them.
struct Ring {
    Barrier full[SLOTS], empty[SLOTS];
    int part[SLOTS];   // what a slot's plane belongs to; -1: there is no more
};

DEVICE int bytes_of_lines(const Cut& cut) { return cut.width * static_cast<int>(sizeof(real)) * FRAMED; }

// A place in the ring.
struct Turn {
    int slot = 0, parity = 0;

    DEVICE void next() {
        if (++slot < SLOTS) return;
        slot = 0;
        parity ^= 1;
    }
};

// The thread that asks for planes. A ticket is drawn for the part after the present one while planes of this one travel; every
// part draws one, so the block that draws the last puts the counter back to zero.
DEVICE void fetch(
    const Stencil& a, const Cut& cut, const TensorMap& lines, const TensorMap& ends, unsigned* ticket, Ring& ring, char* planes
) {
    const int parts = cut.across * cut.along * ((a.nz + cut.walk - 1) / cut.walk);
    const int bytes = bytes_of_lines(cut);
    Turn turn;
    for (int number = blockIdx.x; number < parts;) {
        const unsigned drawn = atomicAdd(ticket, 1u);
        const Part part(a, cut, number);
        int before = part.i - WIDE, after = part.i + part.valid;
        if (a.wraps & 1) {
            if (before < 0) before += a.nx;
            if (after == a.nx) after = 0;
        }
        for (int k = part.first - 1; k <= part.last; ++k) {
            const int plane = a.wraps & 4 ? inside(k, a.nz, true) : k;
            Barrier& full = ring.full[turn.slot];
            char* const to = planes + turn.slot * (bytes + 2 * ENDS);
            ring.empty[turn.slot].await(turn.parity ^ 1);
            ring.part[turn.slot] = number;
            full.arrive_and_expect(bytes + 2 * FRAMED * VECTOR);
            copy_box(to, lines, part.i, part.j - 1, plane, full);
            copy_box(to + bytes, ends, before, part.j - 1, plane, full);
            copy_box(to + bytes + ENDS, ends, after, part.j - 1, plane, full);
            turn.next();
        }
        number = static_cast<int>(gridDim.x + drawn);
        if (drawn == parts - 1u) atomicExch(ticket, 0u);
    }
    ring.empty[turn.slot].await(turn.parity ^ 1);
    ring.part[turn.slot] = -1;
    ring.full[turn.slot].arrive();
}

// A thread's points in a part.
template <int R> struct Points {
    const Stencil& a;
    int i, j;
    bool holds;                              // whether any of them is a point of the box
    int pitch, slots;                        // bytes of a line and of a slot
    const char *lines, *before, *after;      // in slot 0: its first line; the values before and after that,
    int before_pitch, after_pitch;           // and how far apart those of two lines are
    real gain_x[WIDE], gain_y[R];            // what the diagonal gains at the faces along x and y

    DEVICE Points(const Stencil& stencil, const Cut& cut, const Part& part, const char* planes) : a(stencil) {
        const int column = threadIdx.x % LANES, line = threadIdx.x / LANES * R + 1;
        i = part.i + column * WIDE;
        j = part.j + line - 1;
        holds = column * WIDE < part.valid;
        const int bytes = bytes_of_lines(cut);
        pitch = bytes / FRAMED;
        slots = bytes + 2 * ENDS;
        lines = planes + line * pitch + column * VECTOR;
        const bool first = column == 0, last = (column + 1) * WIDE == part.valid;
        before_pitch = first ? VECTOR : pitch;
        after_pitch = last ? VECTOR : pitch;
        before = (first ? planes + bytes + (line + 1) * VECTOR : lines) - sizeof(real);
        after = last ? planes + bytes + ENDS + line * VECTOR : lines + VECTOR;
        UNROLLED for (int v = 0; v < WIDE; ++v)
            gain_x[v] = (i + v == 0 ? a.faces[0] : 0) + (i + v == a.nx - 1 ? a.faces[1] : 0);
        UNROLLED for (int l = 0; l < R; ++l)
            gain_y[l] = (j + l == 0 ? a.faces[2] : 0) + (j + l == a.ny - 1 ? a.faces[3] : 0);
    }

    DEVICE const Values<WIDE>& here(int slot, int l) const {
        return *reinterpret_cast<const Values<WIDE>*>(lines + slot * slots + l * pitch);
    }

    DEVICE real left(int slot, int l) const {
        return *reinterpret_cast<const real*>(before + slot * slots + l * before_pitch);
    }

    DEVICE real right(int slot, int l) const {
        return *reinterpret_cast<const real*>(after + slot * slots + l * after_pitch);
    }

    DEVICE void store(real* y, int k, const Values<WIDE>* out, const Values<WIDE>* own, double& dot) const {
        if (!holds) return;
        real* const place = y + (static_cast<i64>(k) * a.ny + j) * a.nx + i;
        UNROLLED for (int l = 0; l < R; ++l) {
            if (j + l >= a.ny) continue;
            *reinterpret_cast<Values<WIDE>*>(place + l * a.nx) = out[l];
            UNROLLED for (int v = 0; v < WIDE; ++v) dot = fma(double(out[l].at[v]), double(own[l].at[v]), dot);
        }
    }
};

template <int R> struct Threads {
    static constexpr int ADD = LANES * LINES / R, ALL = ADD + SLICE;   // that add, and with the warp of the one that fetches
    static_assert(LINES % R == 0, "a thread's lines are a tile's");
};

// y = A x, and each warp's part of x . y in each part of the grid where there is room for it.
template <typename Sums, int R>
DEVICE void spmv(
    const Stencil& a, const Cut& cut, const TensorMap& lines, const TensorMap& ends, real* y, unsigned* ticket, double* partials
) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    extern __shared__ __align__(UNIT) char memory[];
    __shared__ Ring ring;
    constexpr int WARPS = Threads<R>::ADD / SLICE;
    if (threadIdx.x == 0) {
        for (int s = 0; s < SLOTS; ++s) {
            ring.full[s].begin(1);
            ring.empty[s].begin(WARPS);
        }
        barriers_begun();
    }
    __syncthreads();
    if (threadIdx.x >= Threads<R>::ADD) {
        if (threadIdx.x == Threads<R>::ADD) fetch(a, cut, lines, ends, ticket, ring, memory);
        return;
    }
    Turn turn;
    for (;;) {
        ring.full[turn.slot].await(turn.parity);
        const int number = ring.part[turn.slot];
        if (number < 0) return;
        const Part part(a, cut, number);
        const Points<R> points(a, cut, part, memory);
        Sums sums;
        double dot = 0.0;
        for (int k = part.first - 1; k <= part.last; ++k) {
            if (k >= part.first) ring.full[turn.slot].await(turn.parity);
            Values<WIDE> out[R], own[R];
            sums.add(points, k, turn.slot, out, own);
            reads_before_copies();
            __syncwarp();
            if (lane_number() == 0) ring.empty[turn.slot].arrive();
            if (k > part.first) points.store(y, k - 1, out, own, dot);
            turn.next();
        }
        if (partials == nullptr) continue;
        dot = warp_sum(dot);
        if (lane_number() == 0) partials[number * WARPS + threadIdx.x / SLICE] = dot;
    }
#endif
}

#define KERNEL(name, Sums, R)                                                                                             \
    ENTRY __launch_bounds__(Threads<R>::ALL, 1) name(                                                                     \
        const __grid_constant__ Stencil a, const __grid_constant__ Cut cut, const __grid_constant__ TensorMap lines,      \
        const __grid_constant__ TensorMap ends, Out<real> y, unsigned* ticket, double* partials                           \
    ) {                                                                                                                   \
        FOLLOW_LAST()                                                                                                     \
        spmv<Sums<WIDE, R>, R>(a, cut, lines, ends, y, ticket, partials);                                                 \
    }

KERNEL(star_march, Star, STAR_ROWS)
KERNEL(box_march, Box, BOX_ROWS)
