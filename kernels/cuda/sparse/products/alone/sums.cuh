// Sums of a row by the thread that makes it, with the bits of the host's loops. Needs sparse/table.cuh.
//
// A thread keeps sums and columns in the order in which they are found, and a table of bytes that says at which place a column
// is. Most slots are empty, so a column is found after 1.1 looks. What lane l of a warp has stands 32 places apart, so no two
// lanes meet in a bank of shared memory, wherever they look.
#pragma once

constexpr int EMPTY = 255;        // a slot without a column; rows have less
constexpr int BYTES_OF_SUM = 12;  // its column included
constexpr int LONGEST = 1024;     // entries of a row of the left factor that a thread takes, one after the other

// Sums of this thread's row.
struct Sums {
    unsigned char* slots;   // slot s at s / 4 * 128 + s % 4
    int* columns;           // place n at 32 n
    double* values;
    int bits, most, count;  // slots by their power of two; places; how many are taken, or most + 1 if there are too few

    DEVICE Sums(char* memory, int table_bits, int most_columns)
        : bits(table_bits), most(most_columns), count(0) {
        const int lane = threadIdx.x % WARP;
        values = reinterpret_cast<double*>(memory) + lane;
        columns = reinterpret_cast<int*>(memory + 8 * WARP * most) + lane;
        char* const table = memory + BYTES_OF_SUM * WARP * most;
        slots = reinterpret_cast<unsigned char*>(table) + 4 * lane;
        int4* const quads = reinterpret_cast<int4*>(table) + lane;   // all lanes clear the warp's tables
        for (int n = 0; n < 1 << (bits - 4); ++n) quads[n * WARP] = make_int4(NONE, NONE, NONE, NONE);
        __syncwarp();
    }

    // Add to the sum of a column, or begin it if there is a place.
    DEVICE void add(int column, double value) {
        unsigned s = static_cast<unsigned>(column) * 2654435769u >> (WARP - bits);   // 2^32 over the golden ratio (Knuth)
        while (true) {
            unsigned char* const slot = slots + (s >> 2) * (4 * WARP) + (s & 3u);
            const int place = *slot;
            if (place == EMPTY) {
                if (count < most) {
                    *slot = static_cast<unsigned char>(count);
                    columns[count * WARP] = column;
                    values[count * WARP] = value;
                }
                count = min(count, most) + 1;
                return;
            }
            if (columns[place * WARP] == column) {
                values[place * WARP] = __dadd_rn(values[place * WARP], value);
                return;
            }
            s = (s + 1) & ((1u << bits) - 1u);
        }
    }

    // All of them to their places in a room, whose size is a multiple of four. What is behind the last one is not used.
    DEVICE void store(int* to_columns, double* to_values) const {
        for (int n = 0; n < count; n += 4) {
            const int* const c = columns + n * WARP;
            const double* const v = values + n * WARP;
            *reinterpret_cast<int4*>(to_columns + n) = make_int4(c[0], c[WARP], c[2 * WARP], c[3 * WARP]);
            *reinterpret_cast<double2*>(to_values + n) = make_double2(v[0], v[WARP]);
            *reinterpret_cast<double2*>(to_values + n + 2) = make_double2(v[2 * WARP], v[3 * WARP]);
        }
    }
};

// Bytes of a warp's sums.
DEVICE int bytes_of_sums(int bits, int most) { return WARP * (BYTES_OF_SUM * most + (1 << bits)); }
