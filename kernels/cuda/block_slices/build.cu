// Table of kernels: slices of 32 rows of blocks from compressed rows whose columns ascend: what each takes, then its entries.

#include "slices.cuh"
#include "block_slices/slices.cuh"

constexpr int WARPS = 4;      // of a block that makes slices
constexpr int WINDOW = 1024;  // rows that are sorted by length together, at most
constexpr int NONE = 0x7fffffff;
constexpr int NEAR_REACH = 65535;
constexpr int OCTET = 8, OF_WINDOW = 2;   // rows of an octet, and slices of a window of octets: see formats/octets.py

// Merges the B rows of a row of blocks: the blocks in ascending order of their columns.
template <int B>
struct Merge {
    const int* columns;   // of the first row's first entry on
    int at[B], end[B];

    __device__ Merge(const i64* start, const int* all, int block_row) {
        const i64 first = block_row < 0 ? 0 : start[static_cast<i64>(block_row) * B];
        columns = all + first;
        UNROLLED for (int i = 0; i < B; ++i) {
            const i64 row = static_cast<i64>(block_row) * B + i;
            at[i] = block_row < 0 ? 0 : static_cast<int>(start[row] - first);
            end[i] = block_row < 0 ? 0 : static_cast<int>(start[row + 1] - first);
        }
    }

    // Column of the next block, or NONE.
    __device__ int next() const {
        int found = NONE;
        UNROLLED for (int i = 0; i < B; ++i) if (at[i] < end[i]) found = min(found, columns[at[i]] / B);
        return found;
    }

    // Pass the entries of block `column`; each is given to take(i, j, where).
    template <typename Take>
    __device__ void pass(int column, Take take) {
        UNROLLED for (int i = 0; i < B; ++i)
            for (; at[i] < end[i] && columns[at[i]] / B == column; ++at[i]) take(i, columns[at[i]] - column * B, at[i]);
    }

    __device__ void pass(int column) {
        UNROLLED for (int i = 0; i < B; ++i) while (at[i] < end[i] && columns[at[i]] / B == column) ++at[i];
    }
};

DEVICE int own_row(const int* order, int place, int rows) { return order ? order[place] : place < rows ? place : -1; }

// The first row of a row of blocks: all that is read of the columns where it is full.
struct FirstRow {
    i64 first;   // of its entries
    int length;
};

template <int B>
DEVICE FirstRow first_row(const i64* start, int block_row) {
    if (block_row < 0) return {0, 0};
    const i64* const own = start + static_cast<i64>(block_row) * B;
    return {own[0], static_cast<int>(own[1] - own[0])};
}

// Whether the rows of blocks of all lanes are full: rows as long as each other, with the same columns, and these in whole
// blocks. The warp reads one row after the other: 4 bytes an entry, in order, where lanes that merge meet in no line.
template <int B>
DEVICE bool all_full(const i64* start, const int* columns, int block_row, FirstRow own) {
    bool full = own.length % B == 0;
    if (block_row >= 0) {
        UNROLLED for (int i = 1; i < B; ++i) {
            const i64* const row = start + static_cast<i64>(block_row) * B + i;
            full &= row[1] - row[0] == own.length;
        }
    }
    if (!__all_sync(ALL_LANES, full)) return false;
    constexpr int AT_ONCE = B <= 3 ? 4 : B == 4 ? 2 : 1;   // rows of blocks that are on their way together: 12 columns or so
    const int lane = lane_number(), longest = __reduce_max_sync(ALL_LANES, own.length);
    for (int of = 0; of < SLICE; of += AT_ONCE) {
        for (int k = 0; k < longest; k += SLICE) {
            const int j = (k + lane) % B;   // in its block
            int block[AT_ONCE], column[AT_ONCE][B];
            UNROLLED for (int q = 0; q < AT_ONCE; ++q) {
                const int length = __shfl_sync(ALL_LANES, own.length, of + q);
                const int* const entry = columns + __shfl_sync(ALL_LANES, own.first, of + q) + k + lane;
                const bool there = k + lane < length;
                block[q] = there ? entry[-j] : 0;
                UNROLLED for (int i = 0; i < B; ++i) column[q][i] = there ? entry[i * length] : j;
            }
            UNROLLED for (int q = 0; q < AT_ONCE; ++q) {
                full &= block[q] % B == 0;
                UNROLLED for (int i = 0; i < B; ++i) full &= column[q][i] == block[q] + j;
            }
        }
        if (!__all_sync(ALL_LANES, full)) return false;
    }
    return true;
}

// Item `number` of samples that are `stretch` items each and begin `stride` items apart.
DEVICE int sampled(int number, int stretch, int stride) { return number / stretch * stride + number % stretch; }

// Blocks of each of `count` rows of blocks.
EACH(B, 1, 2, 3, 4, 6) ENTRY count_blocks_##B(const i64* start, const int* columns, int* length, int count) {
    const int number = blockIdx.x * blockDim.x + threadIdx.x;
    if constexpr (B == 1) {
        if (number < count) length[number] = static_cast<int>(start[number + 1] - start[number]);
    } else {
        const int row = number < count ? number : -1;
        const FirstRow own = first_row<B>(start, row);
        int found = own.length / B;
        if (!all_full<B>(start, columns, row, own)) {
            Merge<B> merge(start, columns, row);
            found = 0;
            for (int c = merge.next(); c != NONE; c = merge.next(), ++found) merge.pass(c);
        }
        if (row >= 0) length[number] = found;
    }
}

// The rows of each window in the order of their lengths, longest first, equally long ones as they were: order[place] is a
// row of blocks, or -1. A block sorts a window of `window` rows, a power of two, by merging sorted runs (bitonic).
ENTRY sort_windows(const int* length, int* order, int rows, int window) {
    __shared__ u64 key[WINDOW];
    const int first = blockIdx.x * window;
    for (int i = threadIdx.x; i < window; i += blockDim.x) {
        const unsigned size = first + i < rows ? static_cast<unsigned>(length[first + i]) + 1u : 0u;
        key[i] = static_cast<u64>(0xffffffffu - size) << 32 | static_cast<unsigned>(i);
    }
    for (int size = 2; size <= window; size *= 2) {
        for (int distance = size / 2; distance > 0; distance /= 2) {
            __syncthreads();
            for (int i = threadIdx.x; i < window; i += blockDim.x) {
                const int other = i ^ distance;
                if (other > i) {
                    const u64 a = key[i], b = key[other];
                    if ((a > b) == ((i & size) == 0)) { key[i] = b; key[other] = a; }
                }
            }
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < window; i += blockDim.x) {
        const int row = first + static_cast<int>(key[i] & 0xffffffffu);
        order[first + i] = row < rows ? row : -1;
    }
}

constexpr int TILE = 16;   // entries of a row, or blocks of a full one, that are read together
constexpr int SHORT = 8;   // entries of the longest row of a slice up to which lanes read their rows by themselves

// Calls read(lane, n, from) for the next entries of each lane's row, or the first ones of blocks, up to TILE of them: number n
// is at `from`. Lanes that read a row each would meet in no line of memory: 16 of them read 16 entries of a row, for the lane
// that needs them.
template <int B, typename Read>
DEVICE void read_tile(i64 first, int left, Read read) {
    const int half = lane_number() / TILE, own = lane_number() % TILE;
#pragma unroll (B == 1 ? SLICE / 2 : 4)
    for (int pair = 0; pair < SLICE; pair += 2) {
        const i64 from = __shfl_sync(ALL_LANES, first, pair + half) + own * B;
        if (own < __shfl_sync(ALL_LANES, left, pair + half)) read(pair + half, own, from);
    }
    __syncwarp();
}

// Distinct distances of columns from the lane's place in the slice, if there are at most `most` of them; else more.
// The smallest and the largest of them in low and high.
template <int B>
DEVICE int distances(const i64* start, const int* columns, int row, int most, int* low, int* high) {
    const int lane = lane_number();
    Merge<B> merge(start, columns, row);
    int count = 0;
    for (; count <= most; ++count) {
        const int c = merge.next();
        const int smallest = __reduce_min_sync(ALL_LANES, c == NONE ? NONE : c - lane);
        if (smallest == NONE) break;
        if (c != NONE && c - lane == smallest) merge.pass(c);
        if (count == 0) *low = smallest;
        *high = smallest;
    }
    return count;
}

// The same of single entries of long rows, and of full rows of blocks.
template <int B>
DEVICE int distances_by_tiles(const i64* start, const int* columns, int row, int most, int* low, int* high) {
    __shared__ int column_of[WARPS][SLICE][TILE + 1];
    const int lane = lane_number();
    auto& column = column_of[threadIdx.x / SLICE];
    const FirstRow own = first_row<B>(start, row);
    const int length = own.length / B;
    int count = 0, at = 0, taken = 0;   // entries before the tile, and of it
    for (; count <= most; ++count) {
        if (count == 0 || __reduce_max_sync(ALL_LANES, taken) == TILE) {
            at += taken;
            taken = 0;
            __syncwarp();   // all have read what is overwritten now
            read_tile<B>(own.first + at * B, length - at, [&](int of, int n, i64 from) {
                column[of][n] = columns[from] / B;
            });
        }
        const int c = at + taken < length ? column[lane][taken] : NONE;
        const int smallest = __reduce_min_sync(ALL_LANES, c == NONE ? NONE : c - lane);
        if (smallest == NONE) break;
        taken += c != NONE && c - lane == smallest;
        if (count == 0) *low = smallest;
        *high = smallest;
    }
    return count;
}

// What the slice takes whose rows of blocks the lanes have.
struct Measured {
    int length;              // blocks of the lane's row of blocks
    int width, kind, base;   // of the slice
    bool full;               // whether all of its rows are of full blocks; not told of single entries
};

template <int B>
DEVICE Measured measured(const i64* start, const int* columns, const int* order, int row, int wide) {
    int length = 0, first = NONE, last = -1;
    bool by_tiles = false;
    if constexpr (B == 1) {
        if (row >= 0) {
            const i64 from = start[row], to = start[row + 1];
            length = static_cast<int>(to - from);
            if (length > 0) { first = columns[from]; last = columns[to - 1]; }
        }
    } else {
        const FirstRow own = first_row<B>(start, row);
        by_tiles = all_full<B>(start, columns, row, own);
        if (by_tiles) {
            length = own.length / B;
            if (length > 0) { first = columns[own.first] / B; last = columns[own.first + own.length - 1] / B; }
        } else {
            Merge<B> merge(start, columns, row);
            for (int c = merge.next(); c != NONE; c = merge.next(), ++length) {
                first = min(first, c);
                last = c;
                merge.pass(c);
            }
        }
    }
    int width = __reduce_max_sync(ALL_LANES, length);
    if constexpr (B == 1) by_tiles = width > SHORT;
    const int low = __reduce_min_sync(ALL_LANES, first), high = __reduce_max_sync(ALL_LANES, last);
    int kind = width > 0 && high - low <= NEAR_REACH ? NEAR : WIDE, base = width > 0 ? low : 0;
    if (order == nullptr && width > 0) {
        constexpr int OF_VALUES = SLICE * B * B * sizeof(real);
        const int most = static_cast<int>(static_cast<i64>(width) * (OF_VALUES + (kind == NEAR ? 64 : 128)) / OF_VALUES);
        int lowest = 0, highest = 0;
        const int runs = by_tiles
            ? distances_by_tiles<B>(start, columns, row, most, &lowest, &highest)
            : distances<B>(start, columns, row, most, &lowest, &highest);
        if (runs <= most && lowest >= 0 && highest + SLICE <= wide) { width = runs; kind = RUN; }
    }
    return {length, width, kind, base, by_tiles};
}

// What slices take: {entry columns, units of columns} in sizes, {shape, base} in found, and of blocks whether all are full.
EACH(B, 1, 2, 3, 4, 6) ENTRY __launch_bounds__(WARPS * SLICE) measure_##B(
    const i64* start, const int* columns, const int* order, int2* sizes, int2* found, unsigned char* full,
    int count, int rows, int wide
) {
    const int s = warp_number(), lane = lane_number();
    if (s >= count) return;
    const Measured slice = measured<B>(start, columns, order, own_row(order, s * SLICE + lane, rows), wide);
    if (lane == 0) {
        sizes[s] = make_int2(slice.width, static_cast<int>(units_of(slice.width, slice.kind)));
        found[s] = make_int2(slice.width << 2 | slice.kind, slice.base);
        if constexpr (B > 1) full[s] = slice.full;
    }
}

// What statistics tell of sampled slices in the rows' own order: {shape, entries, blocks, entry columns of octets}. Octets are
// those of windows of `OF_WINDOW` slices, whose rows are sorted: each is as wide as its longest row, which is the one that has
// so many others of its octet before it.
EACH(B, 1, 2, 3, 4, 6) ENTRY __launch_bounds__(WARPS * SLICE) sample_##B(
    const i64* start, const int* columns, int4* told, int count, int rows, int wide, int stretch, int stride
) {
    __shared__ int length_of[WARPS][SLICE];
    const int number = warp_number(), lane = lane_number(), warp = threadIdx.x / SLICE;
    const int place = number < count ? sampled(number, stretch, stride) * SLICE + lane : rows;
    const int row = own_row(nullptr, place, rows);
    const Measured slice = measured<B>(start, columns, nullptr, row, wide);
    length_of[warp][lane] = slice.length;
    __syncthreads();
    int shorter = 0;
    for (int other = warp / OF_WINDOW * OF_WINDOW, n = 0; n < OF_WINDOW; ++other, ++n)
        for (int i = 0; i < SLICE; ++i) {
            const int length = length_of[other][i];
            shorter += length < slice.length || (length == slice.length && other * SLICE + i < threadIdx.x);
        }
    const int of_octets = __reduce_add_sync(ALL_LANES, shorter % OCTET == OCTET - 1 ? slice.length : 0);
    const int blocks = __reduce_add_sync(ALL_LANES, slice.length);
    int entries = 0;
    if (row >= 0) entries = static_cast<int>(start[(row + 1ll) * B] - start[row * static_cast<i64>(B)]);
    entries = __reduce_add_sync(ALL_LANES, entries);
    if (lane == 0 && number < count) told[number] = make_int4(slice.width << 2 | slice.kind, entries, blocks, of_octets);
}

// Where each slice's entries and columns begin: `ends` are running sums of `sizes`.
ENTRY describe(const i64* ends, const int2* sizes, const int2* found, uint4* slices, int count) {
    const int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= count) return;
    const int2 size = sizes[s], f = found[s];
    const i64 first = ends[s] - size.x, place = ends[count + s] - size.y;
    slices[s] = make_uint4(
        static_cast<unsigned>(first), static_cast<unsigned>(place), static_cast<unsigned>(f.x), static_cast<unsigned>(f.y));
}

// Store the next column of this lane's row, c or NONE, as column k of its slice. Returns it, or NONE where the rows of a run
// have another one first. `held` is the column before a hole.
DEVICE int stored_column(int c, int k, int kind, int base, int& held, unsigned short* near, int* far) {
    const int lane = lane_number();
    if (kind == RUN) {
        const int smallest = __reduce_min_sync(ALL_LANES, c == NONE ? NONE : c - lane);
        if (lane == 0) far[k] = smallest;
        return c != NONE && c - lane != smallest ? NONE : c;
    }
    held = c == NONE ? held : c;
    if (kind == NEAR) near[k * SLICE + lane] = static_cast<unsigned short>(held - base);
    else far[k * SLICE + lane] = held;
    return c;
}

// The entries and columns of a slice of single entries, of long rows. TWICE: other entries, rounded, too.
template <bool TWICE>
DEVICE void fill_single(
    const i64* start, In<int> columns, In<double> entries, int row, int width, int kind, int base,
    Out<unsigned short> near, Out<int> far, Out<real> to, In<double> others, Out<float> rounded
) {
    __shared__ int column_of[WARPS][SLICE][TILE + 1];
    __shared__ real value_of[WARPS][SLICE][TILE + 1];
    __shared__ float other_of[TWICE ? WARPS : 1][SLICE][TILE + 1];
    const int lane = lane_number();
    auto& column = column_of[threadIdx.x / SLICE];
    auto& value = value_of[threadIdx.x / SLICE];
    auto& other = other_of[TWICE ? threadIdx.x / SLICE : 0];
    const i64 first = row < 0 ? 0 : start[row];
    const int length = row < 0 ? 0 : static_cast<int>(start[row + 1] - first);
    int at = 0, held = base;
    for (int done = 0; done < width; done += TILE) {
        read_tile<1>(first + at, length - at, [&](int of, int n, i64 from) {
            column[of][n] = columns[from];
            value[of][n] = static_cast<real>(entries[from]);
            if constexpr (TWICE) other[of][n] = static_cast<float>(others[from]);
        });
        int taken = 0;
        for (int k = done; k < min(done + TILE, width); ++k, to += SLICE) {
            const int c = stored_column(at + taken < length ? column[lane][taken] : NONE, k, kind, base, held, near, far);
            *to = c == NONE ? 0 : value[lane][taken];
            if constexpr (TWICE) {
                *rounded = c == NONE ? 0 : other[lane][taken];
                rounded += SLICE;
            }
            taken += c != NONE;
        }
        at += taken;
        __syncwarp();   // before the next tile is read
    }
}

// The entries, rounded where `real` is float, and columns of slice s, unless `fill_full` makes it. Holes have value 0 and the
// column before them. TWICE: other entries in the same places, rounded to float, too.
template <int B, bool TWICE>
DEVICE void fill(
    const i64* start, const int* columns, const double* entries, const int* order, const BlockSlice* slices,
    unsigned short* indices, real* values, const double* others, float* rounded, int count, int rows, const unsigned char* full
) {
    const int s = warp_number(), lane = lane_number();
    if (s >= count || (B > 1 && full[s])) return;
    const int row = own_row(order, s * SLICE + lane, rows);
    const uint4 packed = *reinterpret_cast<const uint4*>(slices + s);
    const int width = static_cast<int>(packed.z) >> 2, kind = packed.z & 3u, base = static_cast<int>(packed.w);
    real* to = values + static_cast<i64>(packed.x) * (B * B * SLICE) + lane;
    if constexpr (TWICE) rounded += static_cast<i64>(packed.x) * (B * B * SLICE) + lane;
    unsigned short* const near = indices + static_cast<i64>(packed.y) * UNIT;
    int* const far = reinterpret_cast<int*>(near);
    if constexpr (B == 1) {
        if (width > SHORT) {
            fill_single<TWICE>(start, columns, entries, row, width, kind, base, near, far, to, others, rounded);
            return;
        }
    }
    Merge<B> merge(start, columns, row);
    const double* const mine = entries + (merge.columns - columns);
    int held = base;
    for (int k = 0; k < width; ++k, to += B * B * SLICE) {
        const int c = stored_column(merge.next(), k, kind, base, held, near, far);
        real block[B * B] = {};
        float other = 0;
        if (c != NONE) {
            if constexpr (B == 1) {
                block[0] = static_cast<real>(mine[merge.at[0]]);
                if constexpr (TWICE) other = static_cast<float>(others[mine - entries + merge.at[0]]);
                ++merge.at[0];
            }
            else merge.pass(c, [&](int i, int j, int where) {
                const real value = static_cast<real>(mine[where]);
                UNROLLED for (int e = 0; e < B * B; ++e) if (e == i * B + j) block[e] = value;
            });
        }
        UNROLLED for (int e = 0; e < B * B; ++e) to[e * SLICE] = block[e];
        if constexpr (TWICE) {
            *rounded = other;
            rounded += SLICE;
        }
    }
}

// One value type in place of two.
EACH(B, 1, 2, 3, 4, 6) ENTRY __launch_bounds__(WARPS * SLICE) fill_##B(
    const i64* start, const int* columns, const double* entries, const int* order, const BlockSlice* slices,
    unsigned short* indices, real* values, int count, int rows, const unsigned char* full
) {
    fill<B, false>(start, columns, entries, order, slices, indices, values, nullptr, nullptr, count, rows, full);
}

// Rows of blocks whose values are read at once: rounded ones fill 32 bytes of an entry column.
constexpr int ABREAST = 32 / sizeof(real);

// The same of slices of full rows of blocks: kernels of their own, since so many registers would slow the others.
EACH(B, 2, 3, 4, 6) ENTRY __launch_bounds__(WARPS * SLICE) fill_full_##B(
    const i64* start, In<int> columns, In<double> entries, const int* order, const BlockSlice* slices,
    Out<unsigned short> indices, Out<real> values, int count, int rows, const unsigned char* full
) {
    __shared__ int place_of[WARPS][SLICE][TILE + 1];   // a block's column, and when that is stored, its entry column
    const int s = warp_number(), lane = lane_number();
    if (s >= count || !full[s]) return;
    auto& place = place_of[threadIdx.x / SLICE];
    const uint4 packed = *reinterpret_cast<const uint4*>(slices + s);
    const int width = static_cast<int>(packed.z) >> 2, kind = packed.z & 3u, base = static_cast<int>(packed.w);
    real* const to = values + static_cast<i64>(packed.x) * (B * B * SLICE);
    unsigned short* const near = indices + static_cast<i64>(packed.y) * UNIT;
    int* const far = reinterpret_cast<int*>(near);
    const FirstRow own = first_row<B>(start, own_row(order, s * SLICE + lane, rows));
    const int length = own.length / B;
    int at = 0, held = base;
    for (int done = 0; done < width; done += TILE) {
        read_tile<B>(own.first + at * B, length - at, [&](int of, int n, i64 from) {
            place[of][n] = columns[from] / B;
        });
        int taken = 0;
        for (int k = done; k < min(done + TILE, width); ++k) {
            const int c = stored_column(at + taken < length ? place[lane][taken] : NONE, k, kind, base, held, near, far);
            if (c == NONE) {
                real* const hole = to + static_cast<i64>(k) * (B * B * SLICE) + lane;
                UNROLLED for (int e = 0; e < B * B; ++e) hole[e * SLICE] = 0;
            } else {
                place[lane][taken++] = k;
            }
        }
        __syncwarp();
        constexpr int BESIDE = SLICE / ABREAST, AHEAD = B < 6 ? 2 : 1;   // entries of a row for lanes, and times they read
        for (int pass = 0; pass < SLICE; pass += ABREAST) {
            const int of = pass + lane / BESIDE, count = __shfl_sync(ALL_LANES, taken, of) * B;
            const double* const from = entries + __shfl_sync(ALL_LANES, own.first + at * B, of);
            const int step = __shfl_sync(ALL_LANES, own.length, of);
            for (int next = lane % BESIDE; next < count; next += AHEAD * BESIDE) {
                double value[AHEAD][B];
                UNROLLED for (int a = 0; a < AHEAD; ++a) {
                    const int m = next + a * BESIDE;
                    UNROLLED for (int i = 0; i < B; ++i) value[a][i] = m < count ? from[i * step + m] : 0.0;
                }
                UNROLLED for (int a = 0; a < AHEAD; ++a) {
                    const int m = next + a * BESIDE, n = m / B;
                    if (m >= count) break;
                    real* const out = to + static_cast<i64>(place[of][n]) * (B * B * SLICE) + (m - n * B) * SLICE + of;
                    UNROLLED for (int i = 0; i < B; ++i) out[i * B * SLICE] = static_cast<real>(value[a][i]);
                }
            }
        }
        at += taken;
        __syncwarp();   // before the next tile is read
    }
}

// Single entries in double, and others in the same places, or these, rounded: A of conjugate gradients and of a preconditioner
// in float. 12 bytes an entry are read once, 8 of others, and 12 are written.
ENTRY __launch_bounds__(WARPS * SLICE) fill_twice_1(
    const i64* start, const int* columns, const double* entries, const int* order, const BlockSlice* slices,
    unsigned short* indices, real* values, int count, int rows, const double* others, float* rounded
) {
    fill<1, true>(start, columns, entries, order, slices, indices, values, others, rounded, count, rows, nullptr);
}
