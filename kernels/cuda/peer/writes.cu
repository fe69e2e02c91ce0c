// Values that GPUs of one host write straight into each other's memory, as words that bear their own number.
//
// An exchange of a halo has a number, 1 for the first. A word is half data and half that number, 8 bytes that no store
// tears apart; who reads it again and again until the number is the wanted one has the data too. So there is no second
// word to write after the data, and no fence (a round trip over the link) between the two. A value of 8 bytes travels
// as two words in one store, one of 4 as one word: twice the bytes, half the waiting. One of a byte takes the two words of 8.
//
// Where words arrive there are two slots, used in turn. Exchange n may overwrite what n - 2 has brought, because of two
// rules: a rank that sends to another also receives from it in the same exchange (a flag, a word without data, where
// there is none), and a rank receives exchange n - 1 before it sends n. So when A sends n it has received n - 1 of B,
// which B sent after it had received n - 2. The sums over ranks follow the same rules.
//
// A peer that is lost must not hang the GPU: who waits looks at `alarm` now and then, a word in the host's memory that
// stands there once this rank was told to stop; what is then received is of no use.

#include "slices.cuh"
#include "vectors/tree.cuh"

constexpr int THREADS = 256;    // writes.py says the same
constexpr int UNROLL = 2;
constexpr int PATIENCE = 2048;  // looks at a word, of about 1 us, between looks at the alarm
constexpr int MOST_SHARED = 512;

// A copy that one block makes: `count` <= THREADS * UNROLL consecutive items.
struct __align__(16) Copy {
    u64 from;   // to send: where the items' rows are listed; to receive: their words in slot 0
    u64 to;     // to send: the receiver's words in slot 0; to receive: the halo's items
    i64 slot;   // bytes from slot 0 to slot 1
    int count;
    int chunk;  // to send: whose vector holds the rows
};              // a flag has no rows, and is copied nowhere

DEVICE unsigned current(const unsigned* number) { return *reinterpret_cast<const volatile unsigned*>(number); }

DEVICE void put(uint4* where, u64 item, unsigned n) {
    asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %2};" ::"l"(where), "r"(static_cast<unsigned>(item)),
                 "r"(n), "r"(static_cast<unsigned>(item >> 32)) : "memory");
}

DEVICE void put(uint2* where, unsigned item, unsigned n) {
    asm volatile("st.volatile.global.v2.u32 [%0], {%1, %2};" ::"l"(where), "r"(item), "r"(n) : "memory");
}

DEVICE uint4 look(const uint4* where) {
    uint4 w;
    asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w) : "l"(where) : "memory");
    return w;
}

DEVICE uint2 look(const uint2* where) {
    uint2 w;
    asm volatile("ld.volatile.global.v2.u32 {%0, %1}, [%2];" : "=r"(w.x), "=r"(w.y) : "l"(where) : "memory");
    return w;
}

DEVICE bool is(uint4 w, unsigned n) { return w.y == n && w.w == n; }
DEVICE bool is(uint2 w, unsigned n) { return w.y == n; }

DEVICE u64 item_of(uint4 w) { return static_cast<u64>(w.z) << 32 | w.x; }
DEVICE unsigned item_of(uint2 w) { return w.x; }

template <typename Word>
DEVICE Word await(const Word* where, Word w, unsigned n, const volatile unsigned* alarm) {
    for (int looks = 1; !is(w, n); ++looks) {
        if (looks % PATIENCE == 0 && *alarm) break;
        w = look(where);
    }
    return w;
}

// Send items of the owned chunks' vectors, or of the only one. Bytes an item: 4 of row, the item, and twice its size over
// the link.
template <typename Word, typename Item>
DEVICE void send(const Copy* copies, const u64* vectors, u64 only, unsigned* number, unsigned* ticket) {
    __shared__ unsigned before;
    next_may_start();
    const Copy copy = copies[blockIdx.x];
    const int* rows = reinterpret_cast<const int*>(copy.from);
    int row[UNROLL];
    UNROLLED for (int u = 0; u < UNROLL; ++u) {
        const int i = threadIdx.x + u * THREADS;
        row[u] = rows != nullptr && i < copy.count ? __ldg(rows + i) : -1;
    }
    const Item* x = reinterpret_cast<const Item*>(vectors != nullptr ? vectors[copy.chunk] : only);
    wait_for_last_launch();
    Item items[UNROLL];
    UNROLLED for (int u = 0; u < UNROLL; ++u) items[u] = row[u] >= 0 ? x[row[u]] : Item(0);
    if (threadIdx.x == 0) before = current(number);
    __syncthreads();
    const unsigned n = before + 1;
    Word* words = reinterpret_cast<Word*>(copy.to + (n & 1 ? copy.slot : 0));
    UNROLLED for (int u = 0; u < UNROLL; ++u) {
        const int i = threadIdx.x + u * THREADS;
        if (i < copy.count) put(words + i, items[u], n);
    }
    // The block that comes last moves the number on: all have read it.
    if (threadIdx.x == 0 && atomicAdd(ticket, 1u) == gridDim.x - 1) {
        *ticket = 0;
        *number = n;
    }
}

// Wait for what was sent to this rank and put it into the halo vectors: twice an item's size read, the item written.
template <typename Word, typename Item>
DEVICE void receive(const Copy* copies, const unsigned* number, const volatile unsigned* alarm) {
    next_may_start();
    const Copy copy = copies[blockIdx.x];
    Item* to = reinterpret_cast<Item*>(copy.to);
    wait_for_last_launch();
    const unsigned n = current(number);
    const Word* words = reinterpret_cast<const Word*>(copy.from + (n & 1 ? copy.slot : 0));
    Word found[UNROLL];
    UNROLLED for (int u = 0; u < UNROLL; ++u) {
        const int i = threadIdx.x + u * THREADS;
        if (i < copy.count) found[u] = look(words + i);
    }
    UNROLLED for (int u = 0; u < UNROLL; ++u) {
        const int i = threadIdx.x + u * THREADS;
        if (i >= copy.count) continue;
        found[u] = await(words + i, found[u], n, alarm);
        if (to != nullptr) to[i] = item_of(found[u]);
    }
}

ENTRY send_8(const Copy* copies, const u64* vectors, u64 only, unsigned* number, unsigned* ticket) {
    send<uint4, u64>(copies, vectors, only, number, ticket);
}

ENTRY send_1(const Copy* copies, const u64* vectors, u64 only, unsigned* number, unsigned* ticket) {
    send<uint4, unsigned char>(copies, vectors, only, number, ticket);
}

ENTRY send_4(const Copy* copies, const u64* vectors, u64 only, unsigned* number, unsigned* ticket) {
    send<uint2, unsigned>(copies, vectors, only, number, ticket);
}

ENTRY receive_8(const Copy* copies, const unsigned* number, const volatile unsigned* alarm) {
    receive<uint4, u64>(copies, number, alarm);
}

ENTRY receive_4(const Copy* copies, const unsigned* number, const volatile unsigned* alarm) {
    receive<uint2, unsigned>(copies, number, alarm);
}

// Values of all points of a window: own ones, and ghosts', of which `below` are before them, as they come. Flags are waited
// for, too. An item read and written, and of a ghost the word.
template <typename Item>
DEVICE void around(
    const Item* own, i64 count, int rows, int below, u64 words, i64 slot, u64 flags, int flag_count,
    const unsigned* number, const volatile unsigned* alarm, Item* out
) {
    next_may_start();
    wait_for_last_launch();
    const unsigned n = current(number);
    const uint4* arriving = reinterpret_cast<const uint4*>(words + (n & 1 ? slot : 0));
    const i64 threads = static_cast<i64>(gridDim.x) * THREADS;
    for (i64 i = static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x; i < count; i += threads) {
        const i64 place = i - below;
        if (place >= 0 && place < rows) {
            out[i] = own[place];
        } else {
            const uint4* word = arriving + (place < 0 ? i : i - rows);
            out[i] = static_cast<Item>(item_of(await(word, look(word), n, alarm)));
        }
    }
    const uint4* flag = reinterpret_cast<const uint4*>(flags + (n & 1 ? slot : 0)) + threadIdx.x;
    if (blockIdx.x == 0 && threadIdx.x < flag_count) await(flag, look(flag), n, alarm);
}

#define AROUND(BYTES, ITEM)                                                                                             \
    ENTRY __launch_bounds__(THREADS) around_##BYTES(                                                                    \
        const ITEM* own, i64 count, int rows, int below, u64 words, i64 slot, u64 flags, int flag_count,                \
        const unsigned* number, const volatile unsigned* alarm, ITEM* out                                               \
    ) {                                                                                                                 \
        around<ITEM>(own, count, rows, below, words, slot, flags, flag_count, number, alarm, out);                      \
    }
AROUND(8, u64)
AROUND(1, unsigned char)

// everyone = the parts of all ranks' chunks, out = their sum in the fixed tree: the own parts go to every peer, then
// theirs are awaited, all in one block. `areas` are the words of this rank (first) and its peers: two slots of `count`.
// fenced: what ranks have written before, wherever, is there for all that read it behind.
ENTRY total_of_all(
    const double* own, double* everyone, double* out, const unsigned char* mine, const u64* areas,
    int ranks, int count, unsigned* number, const volatile unsigned* alarm, int fenced
) {
    __shared__ double near[MOST_SHARED];
    next_may_start();
    wait_for_last_launch();
    const unsigned n = current(number) + 1;
    const int slot = n & 1 ? count : 0;
    if (fenced) __threadfence_system();
    for (int i = threadIdx.x; i < count * (ranks - 1); i += blockDim.x) {
        const int chunk = i % count;
        uint4* area = reinterpret_cast<uint4*>(areas[1 + i / count]);
        if (mine[chunk]) put(area + slot + chunk, __double_as_longlong(own[chunk]), n);
    }
    const uint4* arriving = reinterpret_cast<const uint4*>(areas[0]) + slot;
    double* parts = count <= MOST_SHARED ? near : everyone;
    for (int chunk = threadIdx.x; chunk < count; chunk += blockDim.x) {
        parts[chunk] = mine[chunk] ? own[chunk]
            : __longlong_as_double(item_of(await(arriving + chunk, look(arriving + chunk), n, alarm)));
    }
    if (fenced) __threadfence_system();
    __syncthreads();
    if (threadIdx.x != 0) return;
    *number = n;
    *out = tree_sum(parts, count);
}
