// Roots of aggregates among nodes (dsolver/kernels/cuda/amg/aggregation/roots.py), some lanes a node.
// dsolver.kernels.cpu.amg.aggregation.roots is the text.

#include "device.cuh"
#include "sparse/table.cuh"

constexpr int THREADS = 256;
constexpr int BITS = 52;                               // of a word
constexpr double OUT = 0.0, ROOT = 9007199254740992.0; // of a node that is decided, 2^53
constexpr double PART = 0.5, NEIGHBORS = 2.0;

// A permutation of the numbers below 2^52, from 1 on.
DEVICE double word(i64 origin, u64 salt) {
    constexpr u64 low = (1ull << BITS) - 1, factors[3] = {0x9E3779B97F4A7ull, 0xBF58476D1CE4Full, 0x4D049BB133113ull};
    u64 z = (static_cast<u64>(origin) ^ salt) & low;
    UNROLLED for (int k = 0; k < 3; ++k) {
        z = z * factors[k] & low;
        z ^= z >> (BITS / 2);
    }
    return static_cast<double>(z) + 1.0;
}

// Words of numbers; where `start` is given, of nodes with entries alone.
ENTRY __launch_bounds__(THREADS) words(In<i64> origin, In<i64> start, u64 salt, int nodes, Out<double> out) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < nodes) out[i] = start != nullptr && start[i] == start[i + 1] ? OUT : word(origin[i], salt);
}

// A node of a group of G lanes, in step with the others of its warp; it has no entries behind the last node.
template <int G>
struct Node {
    Group<G> group;
    int i;
    bool there;
    i64 first, end;

    DEVICE Node(const i64* start, int nodes) {
        i = static_cast<int>((static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x) / G);
        there = i < nodes;
        first = there ? start[i] : 0;
        end = there ? start[i + 1] : 0;
    }

    DEVICE double most(double value) const {
        for (int step = G / 2; step > 0; step /= 2) value = fmax(value, __shfl_xor_sync(ALL_LANES, value, step, G));
        return value;
    }

    // The largest value around the node, 0 if it is not open: 4 bytes an entry, and 8 of its column.
    DEVICE double largest(const int* columns, const double* values, int below, const unsigned char* open) const {
        const bool mine = there && open[i];
        double found = mine && group.lane == 0 ? values[below + i] : 0.0;
        if (mine)
            for (i64 k = first + group.lane; k < end; k += G) found = fmax(found, values[columns[k]]);
        return most(found);
    }
};

#define GRAPH In<i64> start, In<int> columns

// Words of nodes without an aggregate that have enough such neighbors, and which nodes have none.
EACH(G, 1, 4, 16) ENTRY __launch_bounds__(THREADS) second_##G(
    GRAPH, int nodes, int below, In<double> found, In<i64> origin, u64 salt, Out<double> own, Out<unsigned char> open
) {
    const Node<G> node(start, nodes);
    const bool alone = node.there && found[below + node.i] < 0.0;
    int n = 0;
    if (alone)
        for (i64 k = node.first + node.group.lane; k < node.end; k += G) n += found[columns[k]] < 0.0;
    n = node.group.sum(n);
    if (!node.there || node.group.lane != 0) return;
    const double least = fmax(PART * static_cast<double>(node.end - node.first), NEIGHBORS);
    open[node.i] = alone;
    own[node.i] = alone && n >= least ? word(origin[node.i], salt) : OUT;
}

// A round is over where the one before it left no node undecided.
DEVICE bool over(const u64* left, int round) { return round > 0 && left[round - 1] == 0; }

EACH(G, 1, 4, 16) ENTRY __launch_bounds__(THREADS) around_##G(
    GRAPH, int nodes, int below, In<double> values, In<unsigned char> open, In<u64> left, int round, Out<double> out
) {
    if (over(left, round)) return;
    const Node<G> node(start, nodes);
    const double found = node.largest(columns, values, below, open);
    if (node.there && node.group.lane == 0) out[node.i] = found;
}

// The states of nodes after a round, which may be written in place, and how many are undecided.
EACH(G, 1, 4, 16) ENTRY __launch_bounds__(THREADS) decide_##G(
    GRAPH, int nodes, int below, In<double> near, In<unsigned char> open, u64* left, int round, const double* own,
    double* out
) {
    if (over(left, round)) return;
    const Node<G> node(start, nodes);
    const double state = node.there ? own[node.i] : OUT;
    bool undecided = state > OUT && state < ROOT;
    double made = state;
    if (__any_sync(ALL_LANES, undecided)) {
        const double found = node.largest(columns, near, below, open);
        if (undecided) made = found == state ? ROOT : found == ROOT ? OUT : state;
    }
    undecided = node.there && node.group.lane == 0 && made > OUT && made < ROOT;
    const unsigned all = __ballot_sync(ALL_LANES, undecided);
    if (threadIdx.x % WARP == 0 && all) atomicAdd(left + round, static_cast<u64>(__popc(all)));
    if (node.there && node.group.lane == 0) out[node.i] = made;
}

// The root that each node is, or has for a neighbor, or had before.
EACH(G, 1, 4, 16) ENTRY __launch_bounds__(THREADS) join_##G(
    GRAPH, int nodes, int below, In<double> states, In<i64> numbers, In<unsigned char> open, In<double> before,
    Out<double> out
) {
    const Node<G> node(start, nodes);
    const double earlier = node.there && before != nullptr ? before[node.i] : -1.0;
    const int me = below + node.i;
    const bool root = node.there && states[me] == ROOT, search = node.there && !root && earlier < 0.0 && open[node.i];
    double found = root ? static_cast<double>(numbers == nullptr ? me : numbers[me]) : -1.0;
    if (search) {
        for (i64 k = node.first + node.group.lane; k < node.end; k += G) {
            const int j = columns[k];
            if (states[j] == ROOT) found = fmax(found, static_cast<double>(numbers == nullptr ? j : numbers[j]));
        }
    }
    found = node.most(found);
    if (node.there && node.group.lane == 0) out[node.i] = earlier >= 0.0 ? earlier : found;
}

// The leader of each node: its own, or that of the neighbor that it is coupled to most, the first one of several.
EACH(G, 1, 4, 16) ENTRY __launch_bounds__(THREADS) stray_##G(
    GRAPH, In<double> values, int nodes, int below, In<double> found, Out<i64> out
) {
    const Node<G> node(start, nodes);
    const double own = node.there ? found[below + node.i] : 0.0;
    double leader = -1.0, most = 0.0;
    i64 at = node.end;
    if (own < 0.0) {
        for (i64 k = node.first + node.group.lane; k < node.end; k += G) {
            const double near = found[columns[k]], value = values[k];
            if (near >= 0.0 && value > most) {
                leader = near;
                most = value;
                at = k;
            }
        }
    }
    for (int step = G / 2; step > 0; step /= 2) {
        const double value = __shfl_xor_sync(ALL_LANES, most, step, G), other = __shfl_xor_sync(ALL_LANES, leader, step, G);
        const i64 place = __shfl_xor_sync(ALL_LANES, at, step, G);
        if (value > most || (value == most && place < at)) {
            most = value;
            leader = other;
            at = place;
        }
    }
    if (node.there && node.group.lane == 0) out[node.i] = static_cast<i64>(own < 0.0 ? leader : own);
}

// Which nodes are roots, as states of which `starts.cu` counts ones; and how many nodes no own root leads.
ENTRY __launch_bounds__(THREADS) mark_roots(In<i64> led, i64 first, int nodes, Out<signed char> root, u64* outside) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    const bool there = i < nodes;
    if (there) root[i] = led[i] == first + i;
    const unsigned all = __ballot_sync(ALL_LANES, there && (led[i] < first || led[i] >= first + nodes));
    if (threadIdx.x % WARP == 0 && all) atomicAdd(outside, static_cast<u64>(__popc(all)));
}
