// The rows of one stage of a pass, and those that it passes on to the next one. Needs sparse/table.cuh.
#pragma once

// The first stage of a pass gets all rows. A row that a stage has no room for goes on to the next one's list, which is done
// by as many blocks as the device runs at once: the host need not know how long a list is.
// Lists (3, rows) are used in turns; passed[s] rows were passed on by stage s.
struct Stage {
    int* lists;
    int* passed;
    int rows, number;

    DEVICE int count() const { return number ? passed[number - 1] : rows; }

    DEVICE int row(int place) const {
        return number ? lists[static_cast<i64>((number - 1) % 3) * rows + place] : place;
    }

    DEVICE void pass_on(int row) const {
        lists[static_cast<i64>(number % 3) * rows + atomicAdd(passed + number, 1)] = row;
    }
};

// The rows of a stage, to groups of G lanes that are in step: all groups of a warp have a turn, perhaps without a row.
template <int G>
class Turns {
    const Stage& stage;
    i64 place, step;
    int count;

public:
    DEVICE explicit Turns(const Stage& given) : stage(given), count(given.count()) {
        step = static_cast<i64>(gridDim.x) * blockDim.x / G;
        place = thread_number() / G - step;
    }

    // Whether any group of this warp has a row.
    DEVICE bool next() {
        place += step;
        return place - threadIdx.x % WARP / G < count;
    }

    // The place of this turn's row in its list.
    DEVICE i64 at() const { return place; }

    // The row of this turn, -1 for none.
    DEVICE int row() const { return place < count ? stage.row(static_cast<int>(place)) : -1; }
};

#define STAGE int *lists, int *passed, int rows, int number
#define THIS_STAGE                                                                                                       \
    Stage { lists, passed, rows, number }
