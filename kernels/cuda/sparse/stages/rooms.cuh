// Rows of a product in rooms of equal size, before it is known where compressed ones would begin.
#pragma once

// Row i has the places i * room and on. If it is longer than that, it is in one of `count` larger rooms, which are behind the
// others, and the first column of its own room tells in which.
struct Rooms {
    int room, larger;
    i64 behind, count;

    // The first place of a row of so many entries.
    DEVICE i64 begin(i64 i, i64 length, const int* columns) const {
        const i64 own = i * room;
        return length > room ? behind + static_cast<i64>(columns[own]) * larger : own;
    }
};

// Rows of the right factor of a product: compressed ones, which begin at start[j]; or rows in rooms, of start[j] entries each.
struct RightRows {
    In<i64> start;
    In<int> columns;
    Rooms rooms;   // none of any size if rows are compressed

    DEVICE void find(int j, i64& from, i64& length) const {
        from = start[j];
        if (rooms.room == 0) {
            length = start[j + 1] - from;
        } else {
            length = from;
            from = rooms.begin(j, length, columns);
        }
    }
};

#define ROOMS int room, int larger, i64 behind, i64 larger_rooms
#define THESE_ROOMS                                                                                                      \
    Rooms { room, larger, behind, larger_rooms }
#define RIGHT In<i64> b_start, In<int> b_columns, int b_room, int b_larger, i64 b_behind
#define RIGHT_ROWS                                                                                                       \
    {                                                                                                                    \
        b_start, b_columns, { b_room, b_larger, b_behind, 0 }                                                            \
    }
