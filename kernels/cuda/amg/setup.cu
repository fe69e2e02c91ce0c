// Levels without a lattice: their entries as tables, and what is asked of those with new values.

#include "device.cuh"

// columns and entries (width, rows): entry k of each row, and -1 and 0 where a row has no more. 12 bytes read an entry.
ENTRY tabulate(
    In<i64> start, In<int> columns, In<double> values, int rows, int width, Out<int> out_columns, Out<double> out_values
) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows) return;
    const i64 first = start[i];
    const int count = static_cast<int>(start[i + 1] - first);
    for (int k = 0; k < width; ++k) {
        const i64 to = static_cast<i64>(k) * rows + i;
        out_columns[to] = k < count ? columns[first + k] : -1;
        out_values[to] = k < count ? values[first + k] : 0.0;
    }
}

// Whether two arrays differ anywhere: then 1 is written to `found`.
#define DIFFER(NAME, ITEM)                                                                                               \
    ENTRY NAME(In<ITEM> one, In<ITEM> other, i64 count, i64* found) {                                                    \
        const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;                                                       \
        ITEM some = 0;                                                                                                   \
        _Pragma("unroll 4")                                                                                              \
        for (i64 k = thread_number(); k < count; k += step)                      \
            some |= one[k] ^ other[k];                                                                                   \
        if (some) *found = 1;                                                                                            \
    }
DIFFER(differ_4, int)
DIFFER(differ_8, i64)
