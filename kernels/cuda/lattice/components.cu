// Connected cells of a box: sets that are joined link by link, by a thread a cell (kernels/cpu/lattice/components.py has the text).
//
// A cell's root is a cell with a smaller number, or itself. Two sets become one when the larger of their roots takes the
// smaller one for its own root (Jaiganesh, Burtscher, HPDC 2018). Threads do that in any order, but the last root of a set
// is its first cell in every order, and so each result has the same bits. 4 bytes a cell are written and read again along
// the ways to the roots, 3 bytes of links and 16 of labels once.
//
// Ways to the roots take the time, so few links are gone: cells of a line that a warp has beside each other begin with one root,
// and of links between two such lines only the first of those beside each other joins them.

constexpr int WARP = 32;
constexpr double GROUNDED = 0.5, SOLID = 9007199254740992.0;   // labels, as in kernels/lattice/components.py

__device__ __forceinline__ int cell() { return static_cast<int>(static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x); }

// The root of a cell as it is now; every other cell on the way gets the root of its root, so that the next way is shorter.
__device__ __forceinline__ int root_of(volatile int* root, int i) {
    int next = root[i];
    while (next != i) {
        const int after = root[next];
        if (after != next) root[i] = after;
        i = next;
        next = after;
    }
    return i;
}

__device__ __forceinline__ void join(int* root, int a, int b) {
    a = root_of(root, a);
    b = root_of(root, b);
    while (a != b) {
        const int low = a < b ? a : b, high = a < b ? b : a, before = atomicCAS(root + high, high, low);
        if (before == high) return;
        a = root_of(root, before);   // another thread was faster: its set and this one's are to be joined
        b = root_of(root, low);
    }
}

// Whether a cell is linked with the one before it along x. Links: one more than cells along their axis; what the outermost
// faces say is not read.
__device__ __forceinline__ bool follows(int nx, const bool* __restrict__ x, int here) {
    const int line = here / nx;
    return here - line * nx > 0 && x[here + line];
}

// Links between cells that both conduct, through the faces before each corner cell along x, y and z; shut: bit 2 a + s for the end
// s of axis a, at which none leaves the box. A thread has a cell of a box that is larger by one along each axis.
extern "C" __global__ void link_cells(
    int nx, int ny, int nz, int shut, const double* __restrict__ around, bool* __restrict__ x, bool* __restrict__ y,
    bool* __restrict__ z
) {
    const long long here = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x, line = here / (nx + 1);
    const int i = static_cast<int>(here - line * (nx + 1)), j = static_cast<int>(line % (ny + 1));
    const int k = static_cast<int>(line / (ny + 1));
    if (k > nz) return;
    const long long row = nx + 2, plane = row * (ny + 2), at = i + 1 + row * (j + 1) + plane * (k + 1);
    const bool conducts = around[at] > 0.0;
    const auto link = [&](int place, int count, int axis, long long step) {
        const bool ends = (place == 0 && (shut >> 2 * axis & 1)) || (place == count && (shut >> (2 * axis + 1) & 1));
        return conducts && !ends && around[at - step] > 0.0;
    };
    if (j < ny && k < nz) x[i + (nx + 1LL) * (j + static_cast<long long>(ny) * k)] = link(i, nx, 0, 1);
    if (i < nx && k < nz) y[i + static_cast<long long>(nx) * (j + (ny + 1LL) * k)] = link(j, ny, 1, row);
    if (i < nx && j < ny) z[i + static_cast<long long>(nx) * (j + static_cast<long long>(ny) * k)] = link(k, nz, 2, plane);
}

// Roots to begin with: of cells that a warp has, and that follow each other, the first one.
extern "C" __global__ void first_roots(int nx, int cells, const bool* __restrict__ x, int* __restrict__ root) {
    const int here = cell(), lane = threadIdx.x % WARP;
    const unsigned begins = __ballot_sync(0xffffffffu, here >= cells || lane == 0 || !follows(nx, x, here));
    if (here < cells) root[here] = here - lane + (WARP - 1 - __clz(begins & (0xffffffffu >> (WARP - 1 - lane))));
}

extern "C" __global__ void join_linked(
    int nx, int ny, int cells, const bool* __restrict__ x, const bool* __restrict__ y, const bool* __restrict__ z, int* root
) {
    const int here = cell();
    if (here >= cells) return;
    const int line = here / nx, j = line % ny, k = line / ny, left = here - 1, plane = nx * ny;
    const bool follows_left = follows(nx, x, here);
    if (follows_left && threadIdx.x % WARP == 0) join(root, here, left);
    if (j > 0 && y[here + nx * k] && !(follows_left && y[left + nx * k] && follows(nx, x, here - nx)))
        join(root, here, here - nx);
    if (k > 0 && z[here] && !(follows_left && z[left] && follows(nx, x, here - plane))) join(root, here, here - plane);
}

// A root's label becomes the smallest of its set's. Labels are not negative: their bits ascend as they do.
extern "C" __global__ void take_least(int cells, const double* __restrict__ labels, int* root, double* least) {
    const int here = cell();
    if (here >= cells) return;
    const int first = root_of(root, here);
    const unsigned long long mine = __double_as_longlong(labels[here]);
    unsigned long long* of_set = reinterpret_cast<unsigned long long*>(least + first);
    if (mine < *static_cast<volatile unsigned long long*>(of_set)) atomicMin(of_set, mine);
}

extern "C" __global__ void spread_least(
    int cells, const int* __restrict__ root, const double* __restrict__ least, double* __restrict__ out
) {
    const int here = cell();
    if (here >= cells) return;
    int first = root[here];   // perhaps not the last one: a way that another thread made shorter may have been an older one
    while (root[first] != first) first = root[first];
    out[here] = least[first];
}

// The root of each cell that is fixed is marked.
extern "C" __global__ void mark_grounded(
    int cells, const bool* __restrict__ ground, int* root, unsigned char* __restrict__ grounded
) {
    const int here = cell();
    if (here < cells && ground[here]) grounded[root_of(root, here)] = 1;
}

// Labels (kernels/lattice/components.py) of components, whose roots are their first cells: 10 bytes a cell, and 4 along the ways to
// the roots.
extern "C" __global__ void name_components(
    int nx, int ny, int cells, long long first, long long along_y, long long along_z, const int* __restrict__ root,
    const unsigned char* __restrict__ grounded, const bool* __restrict__ solid, double* __restrict__ out
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
extern "C" __global__ void look_at_labels(
    int cells, const double* __restrict__ labels, bool* __restrict__ closed, double* counts
) {
    int own = 0, fixed = 0;
    for (long long here = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; here < cells;
         here += static_cast<long long>(gridDim.x) * blockDim.x) {
        const double label = labels[here];
        const bool is_closed = label > GROUNDED && label < SOLID;
        closed[here] = is_closed;
        own += is_closed;
        fixed += label <= GROUNDED;
    }
    for (int step = WARP / 2; step > 0; step /= 2) {
        own += __shfl_xor_sync(0xffffffffu, own, step);
        fixed += __shfl_xor_sync(0xffffffffu, fixed, step);
    }
    if (threadIdx.x % WARP == 0 && own) atomicAdd(counts, static_cast<double>(own));   // integers: exact in any order
    if (threadIdx.x % WARP == 0 && fixed) atomicAdd(counts + 1, static_cast<double>(fixed));
}

// Whether an item begins a group, of items in the order of their keys. 20 bytes an item.
extern "C" __global__ void begin_groups(
    const double* __restrict__ keys, const long long* __restrict__ order, int items, signed char* __restrict__ begins
) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < items) begins[i] = i == 0 || keys[order[i]] != keys[order[i - 1]];
}

// The group of each item, and of each group its key and first item; before: groups that begin before an item. 12 bytes an item.
extern "C" __global__ void number_groups(
    const double* __restrict__ keys, const long long* __restrict__ order, const long long* __restrict__ before, int items,
    int* __restrict__ of, long long* __restrict__ starts, double* __restrict__ group_keys
) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= items) return;
    const long long group = before[i + 1] - 1;
    of[i] = static_cast<int>(group);
    if (before[i] > group) return;
    starts[group] = i;
    group_keys[group] = keys[order[i]];
}

// How many items each group has, and the largest.
extern "C" __global__ void count_items(
    const long long* __restrict__ starts, int groups, int items, long long* __restrict__ counts, unsigned long long* longest
) {
    const int group = blockIdx.x * blockDim.x + threadIdx.x;
    if (group >= groups) return;
    counts[group] = (group + 1 < groups ? starts[group + 1] : items) - starts[group];
    atomicMax(longest, static_cast<unsigned long long>(counts[group]));
}
