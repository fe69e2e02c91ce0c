// Numbers of points that a chunk sees, and their places in its window (dsolver.kernels.cpu.amg.windows is the text).

#include "device.cuh"

#define EACH for (i64 i = thread_number(); i < count; i += static_cast<i64>(gridDim.x) * blockDim.x)

// Numbers of a chunk's points: own ones from `first` on, and ascending ghosts, of which `below` are before them.
struct Window {
    i64 first;
    int rows;
    In<i64> ghosts;
    int count, below;

    // The place of a number in the window; that of the first ghost that is not less, where it is not there.
    __device__ int place(i64 number) const {
        const i64 own = number - first;
        if (own >= 0 && own < rows) return static_cast<int>(own) + below;
        const int ghost = search(0, count, [&](int middle) { return ghosts[middle] < number; });
        return ghost < below ? ghost : ghost + rows;
    }
};

#define WINDOW i64 first, int rows, In<i64> ghosts, int ghosts_count, int below
#define THIS_WINDOW Window { first, rows, ghosts, ghosts_count, below }

// Of numbers of 8 or 4 bytes: their places, -1 of negative ones; those outside, or their places, in any order, as many as there is room for (found[0]: how
// many there are); numbers of places, where names are those of ghosts; marks, which were zero, of numbers from the first on, and of
// those that are not first .. last.
#define OF_NUMBERS(BYTES, T) \
    ENTRY places_##BYTES(In<T> numbers, i64 count, WINDOW, Out<int> out) { \
        const Window window = THIS_WINDOW; \
        EACH out[i] = numbers[i] < 0 ? -1 : window.place(numbers[i]); \
    } \
    ENTRY outside_##BYTES( \
        In<T> numbers, i64 count, i64 first, i64 last, int named, i64 room, Out<i64> found, Out<i64> out \
    ) { \
        EACH { \
            const i64 number = numbers[i]; \
            if (number >= first && number < last) continue; \
            const i64 at = atomicAdd(reinterpret_cast<u64*>(found), 1ULL); \
            if (at < room) out[at] = named ? number : i; \
        } \
    } \
    ENTRY relabel_##BYTES(In<int> places, i64 count, int rows, int below, i64 base, In<T> names, Out<T> out) { \
        EACH { \
            const int place = places[i], own = place - below; \
            out[i] = own < 0 ? names[place] : own < rows ? static_cast<T>(base + own) : names[place - rows]; \
        } \
    } \
    ENTRY mark_named_##BYTES(In<T> numbers, i64 count, i64 first, Out<int> marks) { \
        EACH marks[numbers[i] - first] = 1; \
    } \
    ENTRY mark_others_##BYTES(In<T> numbers, i64 count, i64 first, i64 last, Out<int> marks) { \
        EACH if (numbers[i] < first || numbers[i] >= last) marks[numbers[i]] = 1; \
    }
OF_NUMBERS(8, i64)
OF_NUMBERS(4, int)

// All numbers but so many from the first on.
ENTRY others(i64 count, i64 first, i64 rows, Out<i64> out) { EACH out[i] = i < first ? i : i + rows; }

// 1 for the first of equal numbers that ascend, if they are not first .. last, 0 for the others; below[0]: how many of these
// are less than the first.
ENTRY mark_first(In<i64> numbers, i64 count, i64 first, i64 last, Out<int> out, Out<i64> below) {
    EACH {
        const i64 number = numbers[i];
        const bool marked = (number < first || number >= last) && (i == 0 || number != numbers[i - 1]);
        out[i] = marked;
        if (marked && number < first) atomicAdd(reinterpret_cast<u64*>(below), 1ULL);
    }
}

// Marks of ghosts that some places in a window name; the marks were zero.
ENTRY mark_used(In<int> places, i64 count, int rows, int below, Out<int> marks) {
    EACH {
        const int place = places[i], own = place - below;
        if (own < 0) marks[place] = 1; else if (own >= rows) marks[place - rows] = 1;
    }
}

// Numbers of ghosts among those of all points of a window, and marks of those that are not negative.
ENTRY mark_numbered(In<i64> numbers, i64 count, int rows, int below, Out<i64> ghosts, Out<int> marks) {
    EACH {
        ghosts[i] = numbers[i < below ? i : i + rows];
        marks[i] = ghosts[i] >= 0;
    }
}

// The marked ghosts, one after the other, and the place of each in a window of them alone; before[i]: how many there are before
// ghost i. lower[0]: how many are before own points.
ENTRY take_marked(
    In<i64> ghosts, i64 count, In<i64> before, int rows, int below, Out<i64> lower, Out<i64> out, Out<int> names
) {
    EACH {
        if (before[i + 1] > before[i]) out[before[i]] = ghosts[i];
        if (i == 0) lower[0] = before[below];
        if (names) names[i] = static_cast<int>(before[i]) + (i < below ? 0 : rows);
    }
}

// Where rows come that are put below others: the window of their columns, and begins of rows and entries.
#define BELOW_OTHERS \
    i64 rows_count, i64 entries, i64 shift, WINDOW, Out<i64> out_start, Out<int> out_columns, Out<double> out_values

// Rows with columns by number, below others.
ENTRY stack_numbered(In<i64> start, In<i64> columns, i64 count, In<double> values, BELOW_OTHERS) {
    const Window window = THIS_WINDOW;
    EACH {
        if (i <= rows_count) out_start[i] = start[i] + shift;
        if (i < entries) {
            out_columns[i] = window.place(columns[i]);
            out_values[i] = values[i];
        }
    }
}

// Rows with columns as places in a window of the same own numbers, of which old_below ghosts are before them, below others.
ENTRY stack_placed(
    In<i64> start, In<int> columns, i64 count, In<double> values, In<i64> old_ghosts, int old_below, BELOW_OTHERS
) {
    const Window window = THIS_WINDOW;
    EACH {
        if (i <= rows_count) out_start[i] = start[i] + shift;
        if (i < entries) {
            const int place = columns[i], own = place - old_below;
            out_columns[i] = own >= 0 && own < rows ? own + below : window.place(old_ghosts[own < 0 ? place : place - rows]);
            out_values[i] = values[i];
        }
    }
}

// Numbers of places where own points come first, from 0, and ghosts behind them.
ENTRY slots(In<int> places, i64 count, int rows, int below, Out<int> out) {
    EACH {
        const int place = places[i], own = place - below;
        out[i] = own < 0 ? place + rows : own < rows ? own : place;
    }
}

// Values of all points of a window: of its own, of which `below` ghosts are before and the others behind.
#define AROUND(NAME, T) \
    ENTRY around_##NAME(In<T> own, i64 count, In<double> ghosts, int rows, int below, Out<T> out) { \
        EACH { \
            const i64 place = i - below; \
            out[i] = place >= 0 && place < rows ? own[place] : static_cast<T>(ghosts[place < 0 ? i : i - rows]); \
        } \
    }
AROUND(int8, signed char)
AROUND(int64, i64)
AROUND(float64, double)
