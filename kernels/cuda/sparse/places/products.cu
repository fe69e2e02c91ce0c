// New values of products A B whose places are kept: with the bits of the host's loops, kernels/cpu/amg/products.py.
//
// The place of each product's sum, as an entry of its row of A B, is found once by a hash table (place_*), and kept in a byte or
// two. Then no thread reads columns or searches (add_*): a product is a value of B, a factor, a place and a sum in shared memory.
// A group of G lanes makes a row, in step with the others of its warp. It takes the products with one row of B at a time, whose
// columns are distinct, so lanes never meet in a sum, and every sum has the order of the row of A.
#include "device.cuh"
#include "sparse/table.cuh"
#include "sparse/stages/stage.cuh"

constexpr int AT_ONCE = 4;          // rows of B that are asked for together: at most the lanes of a group
constexpr int LENGTH_SHIFT = 40;
constexpr int THREADS = 256;        // of a block that adds up
constexpr int BLOCKS = 4;           // of a multiprocessor, where registers would let it have three: 10 to 15 % less time

using place_1 = unsigned char;   // of a product, by its bytes
using place_2 = unsigned short;

// A row of B: where it begins, its entries, the products of the row of A before them, and the factor of its products.
struct Row {
    i64 from;
    int length, before;   // short rows have less than 2^31 products
    double factor;
};

// Go through the rows of B of a row of A, entries begin .. end, AT_ONCE at a time, of which the last ones may have no entries.
// All lanes of the warp call visit(rows).
template <int G, bool VALUES, typename Visit>
DEVICE void walk(
    const Group<G>& group, i64 begin, i64 end, In<int> a_columns, In<double> a_values, In<i64> b_start, Visit visit
) {
    int before = 0;
    while (true) {
        const int count = static_cast<int>(end - begin < G ? end - begin : G), most = group.most(count);
        if (most == 0) return;
        u64 packed = 0;   // where a row begins, and its length in the upper bits
        int length = 0;
        double factor = 0.0;
        if (group.lane < count) {
            const int j = a_columns[begin + group.lane];
            const i64 from = b_start[j];
            length = static_cast<int>(b_start[j + 1] - from);
            packed = from | static_cast<u64>(length) << LENGTH_SHIFT;
            if (VALUES) factor = a_values[begin + group.lane];
        }
        begin += count;
        const int upto = group.scan(length);
        for (int q = 0; q < most; q += AT_ONCE) {
            Row rows[AT_ONCE];
            UNROLLED for (int u = 0; u < AT_ONCE; ++u) {
                const u64 row = group.from(packed, q + u);
                rows[u].from = row & (1ull << LENGTH_SHIFT) - 1ull;
                rows[u].length = static_cast<int>(row >> LENGTH_SHIFT);
                rows[u].before = before + group.from(upto, q + u) - rows[u].length;
                rows[u].factor = VALUES ? group.from(factor, q + u) : 0.0;
            }
            visit(rows);
        }
        before += group.from(upto, G - 1);
    }
}

// Numbers of products of the rows of A B. Groups of COUNTING lanes have a row.
constexpr int COUNTING = 8;
ENTRY count_products(int rows, In<i64> a_start, In<int> a_columns, In<i64> b_start, Out<i64> counts) {
    const Group<COUNTING> group;
    const i64 i = thread_number() / COUNTING;
    i64 count = 0;
    if (i < rows)
        for (i64 k = a_start[i] + group.lane; k < a_start[i + 1]; k += COUNTING)
            count += b_start[a_columns[k] + 1] - b_start[a_columns[k]];
    count = group.sum(count);
    if (i < rows && group.lane == 0) counts[i] = count;
}

// Places of the products of a row i, from first[i] on. Tables have 1 << bits slots, for `most` columns; rows with more, and rows
// of A that are longer than `longest`, are passed on.
EACH(G, 4, 8, 16, 32) EACH(B, 1, 2) ENTRY place_##G##_##B(
    STAGE, In<i64> a_start, In<int> a_columns, In<i64> b_start, In<int> b_columns, int bits, int most,
    i64 longest, In<i64> start, In<int> columns, In<i64> first, Out<place_##B> places
) {
    const Stage stage = THIS_STAGE;
    extern __shared__ __align__(16) char memory[];
    const Group<G> group;
    const int slots = blockDim.x / G << bits, own = threadIdx.x / G << bits;   // of the block; of this row
    int* const keys = reinterpret_cast<int*>(memory) + own;
    unsigned short* const numbers = reinterpret_cast<unsigned short*>(memory + 4 * slots) + own;
    const Table table{keys, nullptr, bits};
    Turns<G> turns(stage);
    while (turns.next()) {
        const int i = turns.row();
        i64 begin = 0, end = 0, from = 0, to = 0;
        int size = 0;
        if (i >= 0) {
            begin = a_start[i];
            end = a_start[i + 1];
            from = start[i];
            to = first[i];
            const i64 wanted = start[i + 1] - from;
            if (wanted > most || end - begin > longest) {
                begin = end;
                if (group.lane == 0) stage.pass_on(i);
            } else {
                size = static_cast<int>(wanted);
            }
        }
        table.clear(group);
        for (int n = group.lane; n < size; n += G) {
            unsigned slot;
            table.look(columns[from + n], slot);
            numbers[slot] = static_cast<unsigned short>(n);
        }
        group.sync();
        walk<G, false>(group, begin, end, a_columns, nullptr, b_start, [&](const Row (&rows)[AT_ONCE]) {
            for (int u = 0; u < AT_ONCE; ++u)
                for (int base = 0; group.any(base < rows[u].length); base += G) {
                    const int m = base + group.lane;
                    if (m >= rows[u].length) continue;
                    unsigned slot;
                    table.look(b_columns[rows[u].from + m], slot);
                    places[to + rows[u].before + m] = static_cast<place_##B>(numbers[slot]);
                }
        });
        group.sync();   // before the next rows clear the tables
    }
}

// Values of rows of A B, of those in a list or of the first `count`, that have no more than `most` columns and whose rows of A
// are no longer than `longest`. Sums stand in shared memory as they do in the result. They begin at -0, which leaves every first
// term as it is.
EACH(G, 4, 8, 16, 32) EACH(B, 1, 2) ENTRY __launch_bounds__(THREADS, BLOCKS) add_##G##_##B(
    In<int> list, int count, In<i64> a_start, In<int> a_columns, In<double> a_values, In<i64> b_start,
    In<double> b_values, int most, i64 longest, In<i64> start, In<i64> first, In<place_##B> places,
    Out<double> values
) {
    extern __shared__ __align__(16) char memory[];
    const Group<G> group;
    double* const sums = reinterpret_cast<double*>(memory) + threadIdx.x / G * most;
    const i64 turn = thread_number() / G;
    i64 begin = 0, end = 0, out = 0, at = 0;
    int size = 0;
    if (turn < count) {
        const i64 i = list ? list[turn] : turn;
        begin = a_start[i];
        end = a_start[i + 1];
        out = start[i];
        at = first[i];
        const i64 wanted = start[i + 1] - out;
        if (wanted > most || end - begin > longest) begin = end;
        else size = static_cast<int>(wanted);
    }
    for (int n = group.lane; n < size; n += G) sums[n] = -0.0;
    group.sync();
    const place_##B* const own = places + at;
    walk<G, true>(group, begin, end, a_columns, a_values, b_start, [&](const Row (&rows)[AT_ONCE]) {
        double products[AT_ONCE];
        int into[AT_ONCE];
        UNROLLED for (int u = 0; u < AT_ONCE; ++u) {
            into[u] = 0;
            products[u] = 0.0;
            if (group.lane < rows[u].length) {
                products[u] = b_values[rows[u].from + group.lane];
                into[u] = own[rows[u].before + group.lane];
            }
        }
        UNROLLED for (int u = 0; u < AT_ONCE; ++u) {
            if (group.lane < rows[u].length) {
                const double product = __dmul_rn(rows[u].factor, products[u]);
                sums[into[u]] = __dadd_rn(sums[into[u]], product);
            }
            for (int base = G; group.any(base < rows[u].length); base += G) {
                const int m = base + group.lane;
                if (m >= rows[u].length) continue;
                const double product = __dmul_rn(rows[u].factor, b_values[rows[u].from + m]);
                const int place = own[rows[u].before + m];
                sums[place] = __dadd_rn(sums[place], product);
            }
            group.sync();
        }
    });
    for (int n = group.lane; n < size; n += G) values[out + n] = sums[n];
}
