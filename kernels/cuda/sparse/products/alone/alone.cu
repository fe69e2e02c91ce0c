// Products A B of sparse matrices with a thread for each row, with the bits of the host's loops: kernels/cpu/amg/products.py.
//
// For rows of few columns. A thread keeps sums and columns in the order in which they are found, and a table of bytes that says
// at which place a column is. Most slots are empty, so a column is found after 1.1 looks. What lane l of a warp has stands
// 32 places apart, so no two lanes meet in a bank of shared memory, wherever they look.
#include "device.cuh"
#include "sparse/table.cuh"
#include "sparse/stages/stage.cuh"
#include "sparse/staged.cuh"
#include "sparse/products/alone/sums.cuh"

constexpr int BATCH = 4;   // entries of a row of B that are requested together
constexpr bool alone = false, staged = true;   // whether lanes read entries of A for each other

// An entry of A.
struct alignas(16) Entry {
    double factor;
    int column;
};

// Some entries of a row of B.
struct Batch {
    int column[BATCH];
    double value[BATCH];

    DEVICE void ask(i64 first, i64 last, In<int> columns, In<double> values) {
        UNROLLED for (int u = 0; u < BATCH; ++u) {
            column[u] = first + u < last ? columns[first + u] : NONE;
            value[u] = first + u < last ? values[first + u] : 0.0;
        }
    }

    DEVICE void add(Sums& sums, double factor) const {
        UNROLLED for (int u = 0; u < BATCH; ++u)
            if (column[u] != NONE) sums.add(column[u], __dmul_rn(factor, value[u]));
    }
};

// Adds the products of an entry of A with the row first .. last - 1 of B.
DEVICE void add_row(Sums& sums, double factor, i64 first, i64 last, In<int> columns, In<double> values) {
    for (i64 m = first; m < last && sums.count <= sums.most; m += BATCH) {
        Batch batch;
        batch.ask(m, last, columns, values);
        batch.add(sums, factor);
    }
}

#define FACTORS \
    In<i64> a_start, In<int> a_columns, In<double> a_values, In<i64> b_start, In<int> b_columns, \
    In<double> b_values

// The sums of a row of A B, of which no more than most + 1 are counted. STAGED: where rows of A have many entries.
template <bool STAGED>
DEVICE void add_rows(Sums& sums, const Staged<Entry>& staged, i64 i, int rows, FACTORS) {
    i64 k = i < rows ? a_start[i] : 0;
    const i64 end = i < rows ? a_start[i + 1] : 0;
    if constexpr (!STAGED) {
        for (; k < end && sums.count <= sums.most; ++k) {
            const int j = a_columns[k];
            add_row(sums, a_values[k], b_start[j], b_start[j + 1], b_columns, b_values);
        }
    } else {
        while (__any_sync(ALL_LANES, k < end)) {
            staged.read(k, end, [=](i64 from) { return Entry{a_values[from], a_columns[from]}; });
            double factor[AT_ONCE] = {};
            i64 first[AT_ONCE], last[AT_ONCE];
            UNROLLED for (int q = 0; q < AT_ONCE; ++q) {
                first[q] = last[q] = 0;
                if (k + q >= end) continue;
                const Entry entry = staged.at(threadIdx.x % WARP, q);
                factor[q] = entry.factor;
                first[q] = b_start[entry.column];
                last[q] = b_start[entry.column + 1];
            }
            UNROLLED for (int q = 0; q < AT_ONCE; q += 2) {   // two rows of B are on their way together
                Batch one, other;
                one.ask(first[q], last[q], b_columns, b_values);
                other.ask(first[q + 1], last[q + 1], b_columns, b_values);
                one.add(sums, factor[q]);
                add_row(sums, factor[q], first[q] + BATCH, last[q], b_columns, b_values);
                other.add(sums, factor[q + 1]);
                add_row(sums, factor[q + 1], first[q + 1] + BATCH, last[q + 1], b_columns, b_values);
            }
            k = sums.count <= sums.most ? min(k + AT_ONCE, end) : end;
        }
    }
}

// Rows of A B to rooms of `most` entries each, a multiple of four, and their lengths; longer ones are passed on. Tables have
// 1 << bits slots, more than `most`.
EACH(READ, alone, staged) ENTRY make_##READ(
    STAGE, FACTORS, int bits, int most, Out<i64> counts, Out<int> columns, Out<double> values
) {
    const Stage stage = THIS_STAGE;
    extern __shared__ __align__(16) char memory[];
    const int bytes = bytes_of_sums(bits, most), all = bytes + READ * WARP * AT_ONCE * static_cast<int>(sizeof(Entry));
    char* const own = memory + threadIdx.x / WARP * all;
    Sums sums(own, bits, most);
    const i64 i = thread_number();
    const Staged<Entry> entries{reinterpret_cast<Entry*>(own + bytes)};
    bool left = i < stage.rows && a_start[i + 1] - a_start[i] > LONGEST;
    const i64 mine = left ? stage.rows : i;
    add_rows<READ>(sums, entries, mine, stage.rows, a_start, a_columns, a_values, b_start, b_columns, b_values);
    if (i >= stage.rows) return;
    left = left || sums.count > most;
    counts[i] = left ? 0 : sums.count;
    if (left) stage.pass_on(static_cast<int>(i));
    else sums.store(columns + i * most, values + i * most);
}
