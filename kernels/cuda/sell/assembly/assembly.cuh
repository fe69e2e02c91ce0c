// Set-up of slices from the candidate entries of rows. Comes after slices.cuh.
//
// Every candidate belongs to a section of its slice, or to none. `measure` finds each slice's shape, `fill` writes it: one
// warp a slice both times, one thread a row. Candidates come straight from `numbering` in both passes (4 bytes each, mostly
// from L2): no array of (candidates, rows) exists, unless the rows are a table.
#pragma once

constexpr int NONE = -1, LOWER = 0, UPPER = 1;   // sections
constexpr int RUN_BYTES = SLICE * 8 + 4, EXPLICIT_BYTES = SLICE * 12;   // of one entry column

#define SOURCE int nx, int ny, i64 first, int line, int lines, int candidates, \
    In<int> numbering, In<i64> steps, In<double> weights, \
    i64 weight_stride, int weight_step

#define ROWS In<int> wanted, int slices, int rows, In<int> color, \
    In<int> position

#define SHAPES int* ends, unsigned char* runs

#define PLACES const int* ends, const unsigned char* runs, const i64* start, const i64* column_start, \
    real* values, int* columns

// What was found of all slices, and for how much of it there is room: less, if set-up went on with a wrong number.
#define ROOM const Found* found, i64 room, i64 column_room
#define FITS (found->values <= room && found->columns <= column_room)

#define SOURCE_OF_ARGUMENTS \
    Source{nx, ny, first, line, lines, candidates, numbering, steps, weights, weight_stride, weight_step}
#define COLUMNS_OF_ARGUMENTS Columns{rows, color, position}

// Where the candidates of rows are (`CandidateRows`): rows are the points of a box, x fastest, and candidate k of a point is
// in column numbering[place(row) + steps[k]], or missing where that is -1. Weights of candidate k start at
// k * weight_stride; weight_step is 1 for a value per row and 0 for one for all.
struct Source {
    int nx, ny;
    i64 first;
    int line, lines, count;
    const int* numbering;
    const i64* steps;
    const double* weights;
    i64 weight_stride;
    int weight_step;

    DEVICE i64 place(int row) const {
        const int number = row / nx;
        return first + row % nx + line * (number % ny + static_cast<i64>(lines) * (number / ny));
    }
    DEVICE double weight(int k, int row) const {
        return weights[k * weight_stride + static_cast<i64>(weight_step) * row];
    }
};

// The own columns: of how many rows, their colors and where they lie in the vector that is multiplied.
struct Columns {
    int count;
    const int* color;
    const int* position;

    // Where a column lies in that vector, or in the halo.
    DEVICE int target(int column) const { return column < count ? __ldg(position + column) : column - count + SLICE; }
};

// Which entries are wanted: those of a square matrix off its diagonal in own columns, those in columns of the halo, or those
// of a rectangular matrix in own columns, which have no order. Each says to which of its sections a candidate belongs.
struct Square {
    static constexpr int SECTIONS = 2;
    static constexpr bool HAS_DIAGONAL = true;

    DEVICE int section(const Columns& columns, int row, int own_color, int column) const {
        if (column < 0 || column >= columns.count || column == row) return NONE;
        return __ldg(columns.color + column) < own_color ? LOWER : UPPER;
    }
};

struct Halo {
    static constexpr int SECTIONS = 1;
    static constexpr bool HAS_DIAGONAL = false;

    DEVICE int section(const Columns& columns, int, int, int column) const {
        return column >= columns.count ? LOWER : NONE;
    }
};

struct Rectangle {
    static constexpr int SECTIONS = 1;
    static constexpr bool HAS_DIAGONAL = false;

    DEVICE int section(const Columns& columns, int, int, int column) const {
        return column >= 0 && column < columns.count ? LOWER : NONE;
    }
};

// Some candidates of a row (-1 for none) from one on: all their loads are on their way before the first is waited for, since
// one needs the other, number by number.
constexpr int TOGETHER = 4;
template <typename Wanted>
struct Candidates {
    int column[TOGETHER], section[TOGETHER], target[TOGETHER];

    DEVICE Candidates(
        const Wanted& want, const Source& source, const Columns& columns, int row, i64 place, int own_color, int first
    ) {
        UNROLLED for (int a = 0; a < TOGETHER; ++a)
            column[a] = row < 0 || first + a >= source.count ? -1 : __ldg(source.numbering + place + source.steps[first + a]);
        UNROLLED for (int a = 0; a < TOGETHER; ++a) section[a] = want.section(columns, row, own_color, column[a]);
        UNROLLED for (int a = 0; a < TOGETHER; ++a) target[a] = section[a] == NONE ? 0 : columns.target(column[a]);
    }
};

// What is found of all slices together.
struct Found {
    i64 columns, values;   // how many there are
    int from_end;                // how far from a vector's end the first position with a zero diagonal is; 0 for none
    int widest;                  // entry columns of the widest slice
};

// The slice of this warp: in the order that is given, if any. In that of their rows, slices of several colors that lie between each
// other share what they read.
DEVICE int visited(const i64* order, int slices) {
    const int number = warp_number();
    return order && number < slices ? static_cast<int>(__ldg(order + number)) : number;
}

// ends (slices, SECTIONS), where sections end, and runs (slices): the shape of each slice. Without runs_wanted, no slice is a run.
// Of a square matrix also: the diagonal, and whether one is zero, in `found`, which was zero.
template <typename Wanted>
DEVICE void measure(
    const Wanted& want, const Source& source, const Columns& columns, const int* wanted, int slices, int* ends,
    unsigned char* runs, int runs_wanted, real* diagonal, Found* found, const i64* order = nullptr
) {
    constexpr int SECTIONS = Wanted::SECTIONS;
    const int lane = lane_number(), s = visited(order, slices);
    if (s >= slices) return;
    const int row = wanted[s * SLICE + lane];
    const i64 place = row < 0 ? 0 : source.place(row);
    const int own_color = !Wanted::HAS_DIAGONAL || row < 0 ? 0 : __ldg(columns.color + row);
    int count[SECTIONS] = {}, run_width[SECTIONS] = {};
    bool run = true;
    double own = 0.0;
    for (int first = 0; first < source.count; first += TOGETHER) {
        const Candidates<Wanted> seen(want, source, columns, row, place, own_color, first);
        UNROLLED for (int a = 0; a < TOGETHER; ++a) {
            const int section = seen.section[a], here = seen.target[a] - lane;
            if (Wanted::HAS_DIAGONAL && row >= 0 && seen.column[a] == row) own = source.weight(first + a, row);
            UNROLLED for (int part = 0; part < SECTIONS; ++part) {
                const unsigned members = __ballot_sync(ALL_LANES, section == part);
                if (members == 0) continue;
                const int base = __shfl_sync(ALL_LANES, here, __ffs(members) - 1);
                run &= __all_sync(ALL_LANES, section != part || here == base) != 0;
                run_width[part] += 1;
                count[part] += section == part;
            }
        }
    }
    int explicit_width = 0, width_of_run = 0;
    UNROLLED for (int part = 0; part < SECTIONS; ++part) {
        count[part] = __reduce_max_sync(ALL_LANES, count[part]);
        explicit_width += count[part];
        width_of_run += run_width[part];
    }
    run &= runs_wanted != 0;
    run &= width_of_run * RUN_BYTES <= explicit_width * EXPLICIT_BYTES;
    if (lane == 0) {
        runs[s] = run;
        UNROLLED for (int part = 0, end = 0; part < SECTIONS; ++part)
            ends[s * SECTIONS + part] = end += run ? run_width[part] : count[part];
    }
    if (Wanted::HAS_DIAGONAL && row >= 0) {
        const int p = (s + 1) * SLICE + lane;
        diagonal[p] = in_range(own);
        if (own == 0.0) atomicMax(&found->from_end, (slices + 2) * SLICE - p);
    }
}

// Writes the entries of each slice, holes included (value 0; column 0 in explicit slices): memory need not be zero.
template <typename Wanted>
DEVICE void fill(
    const Wanted& want, const Source& source, const Columns& own, const int* wanted, int slices, PLACES,
    const i64* order = nullptr
) {
    constexpr int SECTIONS = Wanted::SECTIONS;
    const int lane = lane_number(), s = visited(order, slices);
    if (s >= slices) return;
    const int row = wanted[s * SLICE + lane];
    const i64 place = row < 0 ? 0 : source.place(row);
    const int own_color = !Wanted::HAS_DIAGONAL || row < 0 ? 0 : __ldg(own.color + row);
    const bool run = runs[s];
    real* const out = values + start[s] + lane;
    int* const out_columns = columns + column_start[s];
    int next[SECTIONS], end[SECTIONS];
    UNROLLED for (int part = 0; part < SECTIONS; ++part) {
        next[part] = part == 0 ? 0 : end[part - 1];
        end[part] = ends[s * SECTIONS + part];
    }
    for (int first = 0; first < source.count; first += TOGETHER) {
        const Candidates<Wanted> found(want, source, own, row, place, own_color, first);
        real ahead[TOGETHER];
        UNROLLED for (int a = 0; a < TOGETHER; ++a)   // narrowed here, if at all
            ahead[a] = found.section[a] == NONE ? 0.0 : source.weight(first + a, row);
        UNROLLED for (int a = 0; a < TOGETHER; ++a) {
            const int section = found.section[a], target = found.target[a];
            UNROLLED for (int part = 0; part < SECTIONS; ++part) {
                const unsigned members = __ballot_sync(ALL_LANES, section == part);
                if (members == 0) continue;
                const int base = __shfl_sync(ALL_LANES, target - lane, __ffs(members) - 1);
                if (run) {   // all lanes share the entry column; those without an entry have a hole there
                    out[next[part] * SLICE] = section == part ? ahead[a] : real(0);
                    if (lane == 0) out_columns[next[part]] = base;
                    next[part] += 1;
                } else if (section == part) {
                    out[next[part] * SLICE] = ahead[a];
                    out_columns[next[part] * SLICE + lane] = target;
                    next[part] += 1;
                }
            }
        }
    }
    if (run) return;
    UNROLLED for (int part = 0; part < SECTIONS; ++part) {
        for (; next[part] < end[part]; ++next[part]) {
            out[next[part] * SLICE] = 0;
            out_columns[next[part] * SLICE + lane] = 0;
        }
    }
}

// `measure` and `fill` of a square matrix whose slices are known: by `headers`, and their columns.
DEVICE void refill(
    const Source& source, const Columns& own, const int* wanted, int slices, const Header* headers, real* values,
    real* diagonal, Found* found
) {
    constexpr int SECTIONS = Square::SECTIONS;
    const int s = warp_number(), lane = lane_number();
    if (s >= slices) return;
    const int row = wanted[s * SLICE + lane];
    const i64 place = row < 0 ? 0 : source.place(row);
    const int own_color = row < 0 ? 0 : __ldg(own.color + row);
    const Header header = load_header(headers + s);
    const bool run = header.run();
    real* const out = values + static_cast<i64>(header.start) * SLICE + lane;
    int next[SECTIONS] = {0, header.upper()};
    const int end[SECTIONS] = {header.upper(), header.width()};
    double on_diagonal = 0.0;
    for (int first = 0; first < source.count; first += TOGETHER) {
        const Candidates<Square> seen(Square(), source, own, row, place, own_color, first);
        double ahead[TOGETHER];
        UNROLLED for (int a = 0; a < TOGETHER; ++a) {
            const bool center = row >= 0 && seen.column[a] == row;
            ahead[a] = seen.section[a] == NONE && !center ? 0.0 : source.weight(first + a, row);
            if (center) on_diagonal = ahead[a];
        }
        UNROLLED for (int a = 0; a < TOGETHER; ++a) {
            UNROLLED for (int part = 0; part < SECTIONS; ++part) {
                const bool member = seen.section[a] == part;
                if (run ? __any_sync(ALL_LANES, member) : member) {
                    out[next[part] * SLICE] = member ? static_cast<real>(ahead[a]) : real(0);
                    next[part] += 1;
                }
            }
        }
    }
    UNROLLED for (int part = 0; part < SECTIONS; ++part)
        for (; next[part] < end[part]; ++next[part]) out[next[part] * SLICE] = 0;
    if (row < 0) return;
    const int p = (s + 1) * SLICE + lane;
    diagonal[p] = in_range(on_diagonal);
    if (on_diagonal == 0.0) atomicMax(&found->from_end, (slices + 2) * SLICE - p);
}
