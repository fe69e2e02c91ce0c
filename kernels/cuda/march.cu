// SpMV with constant stencils where the device copies whole lines into shared memory by itself (9.0 and later): x is read and
// y written once, 16 bytes a row, at 94 % of the pace of a copy for 7 points.
//
// A block stays on its multiprocessor and takes one part of the grid after another: a tile of `width` points along x and LINES
// lines along y, through `walk` planes along z. One warp asks for a tile's planes, line by line with a frame of one vector and
// one line around it, SLOTS planes ahead and on into the next part; the others add them up, hand the slot back and write.
// Nothing waits for a whole block.
//
// Which block takes which part does not matter to the result. Parts are drawn in order, x fastest, then y, then z, so that what
// blocks read at the same time lies close together, and a fast multiprocessor takes more of them. Walks are short although
// neighbors along z then read two planes twice: long walks let blocks drift apart, and what neighbors share leaves L2
// (docs/decisions.md).

#include "slices.cuh"
#include "stencil.cuh"
#include "products.cuh"
#include "bulk.cuh"

#define FOLLOW_LAST() next_may_start(); wait_for_last_launch();

// As in dsolver/kernels/cuda/stencil.py.
constexpr int LANES = 128, LINES = 12, SLOTS = 3;   // vectors along x and lines of a tile; planes in shared memory
constexpr int STAR_ROWS = 4, BOX_ROWS = 3;          // lines of a thread
constexpr int VECTOR = 16;                          // bytes of a thread's values in a line
constexpr int WIDE = VECTOR / sizeof(real);
// Lines lie in shared memory as in global memory: where `width` is a multiple of GAP bytes, both begin at its multiples. The
// vector before a line is the end of its gap, the one after it the beginning of the next line's.
constexpr int GAP = 128, PITCH = LANES * VECTOR + GAP, FRAMED = LINES + 2;

// How the grid is cut into parts.
struct Cut {
    int width, walk;     // points along x and planes of a part
    int across, along;   // parts along x and y
};

struct Part {
    int i, j, first, last;   // the tile's first point; planes first .. last - 1

    __device__ __forceinline__ Part(const Stencil& a, const Cut& cut, int number) {
        const int layer = number / (cut.across * cut.along);
        i = number % cut.across * cut.width;
        j = number / cut.across % cut.along * LINES;
        first = layer * cut.walk;
        last = min(first + cut.walk, a.nz);
    }
};

// The ring of planes in shared memory.
struct Ring {
    Barrier full[SLOTS], empty[SLOTS];
    int part[SLOTS];   // what a slot's plane belongs to; -1: there is no more
};

// A place in the ring.
struct Turn {
    int slot = 0, parity = 0;

    __device__ __forceinline__ void next() {
        if (++slot < SLOTS) return;
        slot = 0;
        parity ^= 1;
    }
};

// The warp that asks for planes: a lane a line. A ticket is drawn for the part after the present one while planes of this one
// travel; every part draws one, so whoever draws the last puts the counter back to zero.
__device__ __forceinline__ void fetch(
    const Stencil& a, const Cut& cut, const real* x, int parts, unsigned* ticket, Ring& ring, unsigned planes
) {
    const int lane = lane_number();
    const bool wraps_x = a.wraps & 1;
    Turn turn;
    for (int number = blockIdx.x; number < parts;) {
        unsigned drawn = 0;
        if (lane == 0) drawn = atomicAdd(ticket, 1u);
        const Part part(a, cut, number);
        const int j = part.j + lane - 1;
        const int line = lane < FRAMED && j <= a.ny ? inside(j, a.ny, a.wraps & 2) : -1;
        const int begin = max(part.i - WIDE, 0), end = min(part.i + cut.width + WIDE, a.nx);
        const bool before = wraps_x && part.i == 0, after = wraps_x && part.i + cut.width >= a.nx;
        const int bytes = (end - begin) * static_cast<int>(sizeof(real));
        const int lines = __popc(__ballot_sync(ALL_LANES, line >= 0));
        const unsigned place = planes + lane * PITCH + GAP;
        for (int k = part.first - 1; k <= part.last; ++k) {
            const int plane = inside(k, a.nz, a.wraps & 4);
            Barrier& full = ring.full[turn.slot];
            if (lane == 0) {   // and no other lane: one that looked late could miss a phase
                ring.empty[turn.slot].await(turn.parity ^ 1);
                ring.part[turn.slot] = number;
                if (plane >= 0) full.arrive_and_expect(lines * (bytes + (before + after) * VECTOR));
                else full.arrive();
            }
            __syncwarp();
            if (plane >= 0 && line >= 0) {
                const real* const from = x + (static_cast<long long>(plane) * a.ny + line) * a.nx;
                const unsigned to = place + turn.slot * FRAMED * PITCH;
                copy_bulk(to + (begin - part.i) * static_cast<int>(sizeof(real)), from + begin, bytes, full);
                if (before) copy_bulk(to - VECTOR, from + a.nx - WIDE, VECTOR, full);
                if (after) copy_bulk(to + (a.nx - part.i) * static_cast<int>(sizeof(real)), from, VECTOR, full);
            }
            turn.next();
        }
        number = static_cast<int>(gridDim.x + __shfl_sync(ALL_LANES, drawn, 0));
        if (lane == 0 && drawn == parts - 1u) atomicExch(ticket, 0u);
    }
    if (lane != 0) return;
    ring.empty[turn.slot].await(turn.parity ^ 1);
    ring.part[turn.slot] = -1;
    ring.full[turn.slot].arrive();
}

// A thread's points in a part.
template <int R> struct Points {
    const Stencil& a;
    const char* const planes;
    int i, j;
    bool holds;                     // whether any of them is a point of the box
    unsigned outside;               // bit l + 1: line l is not there
    unsigned gone, left_gone, right_gone;   // the same of the present plane; of the values before and after lines
    real gain_x[WIDE], gain_y[R];   // what the diagonal gains at the faces along x and y

    __device__ __forceinline__ Points(const Stencil& stencil, const Cut& cut, const Part& part, const char* memory)
        : a(stencil), planes(memory + (threadIdx.x / LANES * R + 1) * PITCH + GAP + threadIdx.x % LANES * VECTOR) {
        i = part.i + threadIdx.x % LANES * WIDE;
        j = part.j + threadIdx.x / LANES * R;
        holds = threadIdx.x % LANES * WIDE < cut.width && i < a.nx;
        outside = 0;
#pragma unroll
        for (int l = -1; l <= R; ++l)
            if (j + l > a.ny || inside(j + l, a.ny, a.wraps & 2) < 0) outside |= 1u << (l + 1);
#pragma unroll
        for (int v = 0; v < WIDE; ++v) gain_x[v] = (i + v == 0 ? a.faces[0] : 0) + (i + v == a.nx - 1 ? a.faces[1] : 0);
#pragma unroll
        for (int l = 0; l < R; ++l) gain_y[l] = (j + l == 0 ? a.faces[2] : 0) + (j + l == a.ny - 1 ? a.faces[3] : 0);
    }

    __device__ __forceinline__ void at_plane(int k) {
        gone = inside(k, a.nz, a.wraps & 4) < 0 ? ~0u : outside;
        left_gone = i == 0 && !(a.wraps & 1) ? ~0u : gone;
        right_gone = i + WIDE >= a.nx && !(a.wraps & 1) ? ~0u : gone;
    }

    __device__ __forceinline__ const char* at(int slot, int l) const { return planes + (slot * FRAMED + l) * PITCH; }

    __device__ __forceinline__ Values<WIDE> here(int slot, int l) const {
        if (gone >> (l + 1) & 1u) return zeros<WIDE>();
        return *reinterpret_cast<const Values<WIDE>*>(at(slot, l));
    }

    __device__ __forceinline__ real left(int slot, int l) const {
        return left_gone >> (l + 1) & 1u ? real(0) : reinterpret_cast<const real*>(at(slot, l))[-1];
    }

    __device__ __forceinline__ real right(int slot, int l) const {
        return right_gone >> (l + 1) & 1u ? real(0) : reinterpret_cast<const real*>(at(slot, l))[WIDE];
    }

    __device__ __forceinline__ void store(real* y, int k, const Values<WIDE>* out, const Values<WIDE>* own, double& dot) const {
        if (!holds) return;
        real* const place = y + (static_cast<long long>(k) * a.ny + j) * a.nx + i;
#pragma unroll
        for (int l = 0; l < R; ++l) {
            if (j + l >= a.ny) continue;
            *reinterpret_cast<Values<WIDE>*>(place + l * a.nx) = out[l];
#pragma unroll
            for (int v = 0; v < WIDE; ++v) dot = fma(double(out[l].at[v]), double(own[l].at[v]), dot);
        }
    }
};

template <int R> struct Threads {
    static constexpr int ADD = LANES * LINES / R, ALL = ADD + SLICE;   // that add, and with the warp that fetches
    static_assert(LINES % R == 0 && FRAMED <= SLICE, "a thread's lines are a tile's, and a lane fetches one line");
};

// y = A x, and each warp's part of x . y in each part of the grid where there is room for it.
template <typename Sums, int R>
__device__ __forceinline__ void spmv(
    const Stencil& a, const Cut& cut, const real* x, real* y, unsigned* ticket, double* partials
) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    extern __shared__ __align__(GAP) char memory[];
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
        const int parts = cut.across * cut.along * ((a.nz + cut.walk - 1) / cut.walk);
        fetch(a, cut, x, parts, ticket, ring, shared_address(memory));
        return;
    }
    Turn turn;
    for (;;) {
        ring.full[turn.slot].await(turn.parity);
        const int number = ring.part[turn.slot];
        if (number < 0) return;
        const Part part(a, cut, number);
        Points<R> points(a, cut, part, memory);
        Sums sums;
        double dot = 0.0;
        for (int k = part.first - 1; k <= part.last; ++k) {
            if (k >= part.first) ring.full[turn.slot].await(turn.parity);
            Values<WIDE> out[R], own[R];
            points.at_plane(k);
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
    extern "C" __global__ void __launch_bounds__(Threads<R>::ALL, 1) name(                                                \
        const __grid_constant__ Stencil a, const __grid_constant__ Cut cut, const real* __restrict__ x,                   \
        real* __restrict__ y, unsigned* ticket, double* partials                                                          \
    ) {                                                                                                                   \
        FOLLOW_LAST()                                                                                                     \
        spmv<Sums<WIDE, R>, R>(a, cut, x, y, ticket, partials);                                                           \
    }

KERNEL(star_march, Star, STAR_ROWS)
KERNEL(box_march, Box, BOX_ROWS)
