// Values of A B for matrices of full blocks, with the bits of the host's loops: kernels/cpu/amg/products.py.
//
// A group of G lanes has R rows of a row of blocks of A. It takes one row of blocks of B at a time; each lane has WIDE columns
// of it, and adds INNER products to each of R WIDE sums, in the order of the rows of A: scalar rows of A and B would give the
// same order. Sums stand in shared memory as they do in the result, whose nodes are known; a hash table tells the place of
// each. There is one look at the table for R INNER WIDE products.
#include "device.cuh"
#include "sparse/table.cuh"
#include "sparse/stages/stage.cuh"

constexpr int LENGTH_SHIFT = 40;

// Row of blocks in units of nodes: where each begins, the nodes, and the values of all scalar rows.
struct Blocks {
    In<i64> start;
    In<int> columns;
    In<double> values;
};

// Numbers beside each other that a lane loads and stores at once; their address is a multiple of their bytes.
template <int WIDE>
struct Numbers {
    double of[1];
    DEVICE void load(const double* from) { of[0] = *from; }
    DEVICE void store(double* to) const { *to = of[0]; }
};

template <>
struct Numbers<2> {
    double of[2];
    DEVICE void load(const double* from) {
        const double2 both = *reinterpret_cast<const double2*>(from);
        of[0] = both.x;
        of[1] = both.y;
    }
    DEVICE void store(double* to) const { *reinterpret_cast<double2*>(to) = double2{of[0], of[1]}; }
};

// A / b for a < 2^32 / b, where b is at least two and `inverse` 2^32 / b, rounded up.
DEVICE int divided(int a, unsigned inverse) {
    return static_cast<int>(static_cast<u64>(a) * inverse >> 32);
}

// Nodes of a row of the result, and which of them each is: a hash table with linear probing.
struct Places {
    int2* slots;   // a node, or NONE, and its place
    int bits;      // 1 << bits slots, more than there are nodes

    DEVICE unsigned first(int node) const {
        return static_cast<unsigned>(node) * 2654435769u >> (WARP - bits);   // 2^32 over the golden ratio (Knuth)
    }

    DEVICE void enter(int node, int place) const {
        unsigned slot = first(node);
        while (atomicCAS(&slots[slot].x, NONE, node) != NONE) slot = (slot + 1) & ((1u << bits) - 1u);
        slots[slot].y = place;
    }

    // The place of a node that is there.
    DEVICE int of(int node) const {
        for (unsigned slot = first(node);; slot = (slot + 1) & ((1u << bits) - 1u)) {
            const int2 found = slots[slot];
            if (found.x == node) return found.y;
        }
    }
};

// Blocks of A have parts R rows and INNER columns; those of B `width` columns. Tables have 1 << bits slots, for `most` nodes;
// longer rows are passed on. WIDE divides `width`.
template <int G, int R, int INNER, int WIDE>
DEVICE void add_blocks(
    const Stage& stage, int parts, int width, unsigned inverse, const Blocks& a, const Blocks& b, int bits, int most,
    In<i64> start, In<int> columns, Out<double> values
) {
    extern __shared__ __align__(16) char memory[];
    const Group<G> group;
    const int groups = blockDim.x / G, own = threadIdx.x / G, room = R * width * most;
    double* const sums = reinterpret_cast<double*>(memory) + own * room;
    const Places places{reinterpret_cast<int2*>(memory + 8 * groups * room) + (own << bits), bits};
    Turns<G> turns(stage);
    while (turns.next()) {
        const int turn = turns.row();
        i64 begin = 0, out = 0;
        int left = 0, size = 0, span_of_a = 0;   // blocks of A, of the result; entries of a row of A
        const int *nodes_of_a = nullptr, *nodes = nullptr;
        const double* factors = nullptr;
        if (turn >= 0) {
            const int node = turn / parts, part = turn - node * parts;
            begin = a.start[node];
            left = static_cast<int>(a.start[node + 1] - begin);
            out = start[node];
            size = static_cast<int>(start[node + 1] - out);
            if (size > most) {
                if (group.lane == 0) stage.pass_on(turn);
                left = size = 0;
            }
            span_of_a = left * INNER;
            factors = a.values + begin * (parts * R * INNER) + part * R * span_of_a;
            nodes_of_a = a.columns + begin;
            nodes = columns + out;
            out = out * (parts * R * width) + part * R * size * width;
        }
        const int span = size * width;   // entries of a row of the result
        for (int slot = group.lane; slot < 1 << bits; slot += G) places.slots[slot].x = NONE;
        group.sync();
        for (int n = group.lane; n < size; n += G) places.enter(nodes[n], n);
        for (int n = group.lane; n < R * span; n += G) sums[n] = -0.0;   // which leaves every first term as it is
        group.sync();
        while (true) {
            const int count = left < G ? left : G, all = G < WARP ? group.most(count) : count;
            if (all == 0) break;
            u64 row_of_b = 0;   // where it begins, and its length in the upper bits
            if (group.lane < count) {
                const int j = nodes_of_a[group.lane];
                const i64 from = b.start[j];
                row_of_b = from | (b.start[j + 1] - from) << LENGTH_SHIFT;
            }
            for (int q = 0; q < all; ++q) {
                const u64 packed = group.from(row_of_b, q);
                const i64 from = packed & (1ull << LENGTH_SHIFT) - 1ull;
                const int span_of_b = static_cast<int>(packed >> LENGTH_SHIFT) * width;
                double factor[R][INNER];
                if (span_of_b) {
                    UNROLLED for (int i = 0; i < R; ++i)
                        UNROLLED for (int u = 0; u < INNER; ++u) factor[i][u] = factors[i * span_of_a + q * INNER + u];
                }
                const double* const right = b.values + from * (INNER * width);
                for (int m = WIDE * group.lane; m < span_of_b; m += WIDE * G) {
                    const int block = divided(m, inverse);
                    Numbers<WIDE> value[INNER];
                    UNROLLED for (int u = 0; u < INNER; ++u) value[u].load(right + u * span_of_b + m);
                    double* const sum = sums + (places.of(b.columns[from + block]) - block) * width + m;
                    UNROLLED for (int i = 0; i < R; ++i) {
                        Numbers<WIDE> total;
                        total.load(sum + i * span);
                        UNROLLED for (int u = 0; u < INNER; ++u)
                            UNROLLED for (int n = 0; n < WIDE; ++n)
                                total.of[n] = __dadd_rn(total.of[n], __dmul_rn(factor[i][u], value[u].of[n]));
                        total.store(sum + i * span);
                    }
                }
                group.sync();   // the next row's lanes have these columns, too
            }
            left -= count;
            nodes_of_a += count;
            factors += count * INNER;
        }
        for (int n = group.lane; n < R * span; n += G) values[out + n] = sums[n];
        group.sync();   // before the next rows clear the tables
    }
}

#define BLOCKS(name) In<i64> name##_start, In<int> name##_columns, In<double> name##_values
#define THESE_BLOCKS(name)                                                                                               \
    Blocks { name##_start, name##_columns, name##_values }

#define KERNEL(R, INNER, WIDE, G)                                                                                        \
    ENTRY add_##R##_##INNER##_##WIDE##_##G(                                                                              \
        STAGE, int parts, int width, unsigned inverse, BLOCKS(a), BLOCKS(b), int bits, int most,                         \
        In<i64> start, In<int> columns, Out<double> values                                                               \
    ) {                                                                                                                  \
        add_blocks<G, R, INNER, WIDE>(                                                                                   \
            THIS_STAGE, parts, width, inverse, THESE_BLOCKS(a), THESE_BLOCKS(b), bits, most, start, columns, values      \
        );                                                                                                               \
    }
#define KERNELS(R, INNER, WIDE) KERNEL(R, INNER, WIDE, 8) KERNEL(R, INNER, WIDE, 16) KERNEL(R, INNER, WIDE, 32)
KERNELS(2, 2, 1)
KERNELS(3, 2, 1)
KERNELS(3, 3, 1)
KERNELS(3, 6, 1)
KERNELS(3, 3, 2)
KERNELS(3, 6, 2)
