// Connected cells of a box: sets that are joined face by face, by a thread a cell (kernels/cpu/lattice/components.py has the text).
//
// A cell's root is a cell with a smaller number, or itself. Two sets become one when the larger of their roots takes the
// smaller one for its own root (Jaiganesh, Burtscher, HPDC 2018). Threads do that in any order, but the last root of a set
// is its first cell in every order, and so each result has the same bits. 4 bytes a cell are written and read again along
// the ways to the roots, a byte of what is left out and 16 of labels once.
//
// Ways to the roots take the time, so few are gone: cells of a line that a warp has beside each other begin with one root, and of
// faces between two such lines only the first of those beside each other joins them.

#include "device.cuh"

constexpr double GROUNDED = 0.5, SOLID = 9007199254740992.0;   // labels, as in kernels/lattice/components.py

DEVICE int cell() { return static_cast<int>(thread_number()); }

// The root of a cell as it is now; every other cell on the way gets the root of its root, so that the next way is shorter.
DEVICE int root_of(volatile int* root, int i) {
    int next = root[i];
    while (next != i) {
        const int after = root[next];
        if (after != next) root[i] = after;
        i = next;
        next = after;
    }
    return i;
}

DEVICE void join(int* root, int a, int b) {
    a = root_of(root, a);
    b = root_of(root, b);
    while (a != b) {
        const int low = a < b ? a : b, high = a < b ? b : a, before = atomicCAS(root + high, high, low);
        if (before == high) return;
        a = root_of(root, before);   // another thread was faster: its set and this one's are to be joined
        b = root_of(root, low);
    }
}

// Whether a cell hangs together with the one before it along x: neither is left out.
DEVICE bool follows(int nx, In<bool> solid, int here) { return here % nx > 0 && !solid[here] && !solid[here - 1]; }

// Roots to begin with: of cells that a warp has, and that follow each other, the first one.
ENTRY first_roots(int nx, int cells, In<bool> solid, Out<int> root) {
    const int here = cell(), lane = threadIdx.x % WARP;
    const unsigned begins = __ballot_sync(ALL_LANES, here >= cells || lane == 0 || !follows(nx, solid, here));
    if (here < cells) root[here] = here - lane + (WARP - 1 - __clz(begins & (0xffffffffu >> (WARP - 1 - lane))));
}

ENTRY join_cells(int nx, int ny, int cells, In<bool> solid, int* root) {
    const int here = cell();
    if (here >= cells || solid[here]) return;
    const int line = here / nx, before = here - nx, below = here - nx * ny;
    const bool follows_left = follows(nx, solid, here);
    if (follows_left && threadIdx.x % WARP == 0) join(root, here, here - 1);
    if (line % ny > 0 && !solid[before] && !(follows_left && !solid[before - 1])) join(root, here, before);
    if (line / ny > 0 && !solid[below] && !(follows_left && !solid[below - 1])) join(root, here, below);
}

// A root's label becomes the smallest of its set's. Labels are not negative: their bits ascend as they do.
ENTRY take_least(int cells, In<double> labels, int* root, double* least) {
    const int here = cell();
    if (here >= cells) return;
    const int first = root_of(root, here);
    const u64 mine = __double_as_longlong(labels[here]);
    u64* of_set = reinterpret_cast<u64*>(least + first);
    if (mine < *static_cast<volatile u64*>(of_set)) atomicMin(of_set, mine);
}

ENTRY spread_least(int cells, In<int> root, In<double> least, Out<double> out) {
    const int here = cell();
    if (here >= cells) return;
    int first = root[here];   // perhaps not the last one: a way that another thread made shorter may have been an older one
    while (root[first] != first) first = root[first];
    out[here] = least[first];
}

// The root of each cell that is fixed is marked.
ENTRY mark_grounded(int cells, In<bool> ground, int* root, Out<unsigned char> grounded) {
    const int here = cell();
    if (here < cells && ground[here]) grounded[root_of(root, here)] = 1;
}

// Labels (kernels/lattice/components.py) of components, whose roots are their first cells: 10 bytes a cell, and 4 along the ways to
// the roots.
ENTRY name_components(
    int nx, int ny, int cells, i64 first, i64 along_y, i64 along_z, In<int> root,
    In<unsigned char> grounded, In<bool> solid, Out<double> out
) {
    const int here = cell();
    if (here >= cells) return;
    if (solid[here]) {
        out[here] = SOLID;
        return;
    }
    int top = root[here];
    while (root[top] != top) top = root[top];
    const int line = top / nx;
    out[here] = grounded[top] ? GROUNDED : (first + 1.0) + static_cast<double>(top % nx + along_y * (line % ny) + along_z * (line / ny));
}

// Which cells are in components that nothing fixes, and the numbers of these and of fixed ones: 9 bytes a cell.
ENTRY look_at_labels(int cells, In<double> labels, Out<bool> closed, double* counts) {
    int own = 0, fixed = 0;
    for (i64 here = thread_number(); here < cells;
         here += static_cast<i64>(gridDim.x) * blockDim.x) {
        const double label = labels[here];
        const bool is_closed = label > GROUNDED && label < SOLID;
        closed[here] = is_closed;
        own += is_closed;
        fixed += label <= GROUNDED;
    }
    for (int step = WARP / 2; step > 0; step /= 2) {
        own += __shfl_xor_sync(ALL_LANES, own, step);
        fixed += __shfl_xor_sync(ALL_LANES, fixed, step);
    }
    if (threadIdx.x % WARP == 0 && own) atomicAdd(counts, static_cast<double>(own));   // integers: exact in any order
    if (threadIdx.x % WARP == 0 && fixed) atomicAdd(counts + 1, static_cast<double>(fixed));
}

// Whether an item begins a group, of items in the order of their keys. 20 bytes an item.
ENTRY begin_groups(In<double> keys, In<i64> order, int items, Out<signed char> begins) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < items) begins[i] = i == 0 || keys[order[i]] != keys[order[i - 1]];
}

// The group of each item, and of each group its key and first item; before: groups that begin before an item. 12 bytes an item.
ENTRY number_groups(
    In<double> keys, In<i64> order, In<i64> before, int items, Out<int> of, Out<i64> starts, Out<double> group_keys
) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= items) return;
    const i64 group = before[i + 1] - 1;
    of[i] = static_cast<int>(group);
    if (before[i] > group) return;
    starts[group] = i;
    group_keys[group] = keys[order[i]];
}

// How many items each group has, and the largest.
ENTRY count_items(In<i64> starts, int groups, int items, Out<i64> counts, u64* longest) {
    const int group = blockIdx.x * blockDim.x + threadIdx.x;
    if (group >= groups) return;
    counts[group] = (group + 1 < groups ? starts[group + 1] : items) - starts[group];
    atomicMax(longest, static_cast<u64>(counts[group]));
}
