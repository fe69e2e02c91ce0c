// Products A B of sparse matrices with a thread for each row, with the bits of the host's loops: kernels/cpu/amg/products.py. Rows of B
// are in rooms of equal size (rooms.cuh), so a thread asks for all of one at once, before its length is known, and for the
// next one while it adds up: threads are few, since each has a table, but there are registers enough.
#include "device.cuh"
#include "sparse/table.cuh"
#include "sparse/stages/stage.cuh"
#include "sparse/stages/rooms.cuh"
#include "sparse/products/alone/sums.cuh"

// A row of B, and the factor of its products.
template <int ROOM>
struct Held {
    int4 columns[ROOM / 4];
    double2 values[ROOM / 2];
    double factor;
    int length;

    // Ask for row j. What is behind its last entry may be anything.
    DEVICE void ask(const RightRows& b, In<double> b_values, int j, double scale) {
        const i64 from = static_cast<i64>(j) * ROOM;
        factor = scale;
        length = static_cast<int>(b.start[j]);
        UNROLLED for (int n = 0; n < ROOM / 4; ++n)
            columns[n] = __ldg(reinterpret_cast<const int4*>(b.columns + from) + n);
        UNROLLED for (int n = 0; n < ROOM / 2; ++n)
            values[n] = __ldg(reinterpret_cast<const double2*>(b_values + from) + n);
    }

    // Add the products in columns from `least` on.
    DEVICE void add(Sums& sums, const RightRows& b, In<double> b_values, int least) const {
        if (length > ROOM) {   // it has a larger room
            const i64 from = b.rooms.behind + static_cast<i64>(columns[0].x) * b.rooms.larger;
            for (int n = 0; n < length; ++n)
                if (b.columns[from + n] >= least) sums.add(b.columns[from + n], __dmul_rn(factor, b_values[from + n]));
            return;
        }
        UNROLLED for (int n = 0; n < ROOM; ++n) {
            const int4 four = columns[n / 4];
            const double2 two = values[n / 2];
            const int column = n % 4 == 0 ? four.x : n % 4 == 1 ? four.y : n % 4 == 2 ? four.z : four.w;
            if (n < length && column >= least) sums.add(column, __dmul_rn(factor, n % 2 ? two.y : two.x));
        }
    }
};

// Rows of A B to rooms of `most` entries each, a multiple of four, and their lengths; longer ones are passed on. Of row i the
// columns from `diagonal` + i on. Tables have 1 << bits slots, more than `most`.
EACH(ROOM, 8, 12, 16, 20, 24) ENTRY make_##ROOM(
    STAGE, In<i64> a_start, In<int> a_columns, In<double> a_values, RIGHT, In<double> b_values, int bits, int most,
    int diagonal, Out<i64> counts, Out<int> columns, Out<double> values
) {
    const Stage stage = THIS_STAGE;
    const RightRows b RIGHT_ROWS;
    extern __shared__ __align__(16) char memory[];
    Sums sums(memory + threadIdx.x / WARP * bytes_of_sums(bits, most), bits, most);
    const i64 i = thread_number();
    if (i >= stage.rows) return;
    i64 k = a_start[i];
    const i64 end = a_start[i + 1];
    if (end - k > LONGEST) {
        counts[i] = 0;
        stage.pass_on(static_cast<int>(i));
        return;
    }
    const int least = static_cast<int>(i) + diagonal;
    Held<ROOM> now, next;
    int column = 0;   // of the entry after the next one
    double factor = 0.0;
    if (k < end) next.ask(b, b_values, a_columns[k], a_values[k]);
    if (k + 1 < end) {
        column = a_columns[k + 1];
        factor = a_values[k + 1];
    }
    for (; k < end && sums.count <= most; ++k) {
        now = next;
        if (k + 1 < end) next.ask(b, b_values, column, factor);
        if (k + 2 < end) {
            column = a_columns[k + 2];
            factor = a_values[k + 2];
        }
        now.add(sums, b, b_values, least);
    }
    counts[i] = sums.count <= most ? sums.count : 0;
    if (sums.count > most) stage.pass_on(static_cast<int>(i));
    else sums.store(columns + i * most, values + i * most);
}
