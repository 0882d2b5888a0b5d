// Inverse RoPE, WO-A and BF16 or MXFP8 output in one launch, for T <= 32 tokens. One source for
// sm_90a, sm_100a and sm_103a; needs no header, so that NVRTC compiles it alone.
//
// K is cut into 16 slices. A cluster of CLUSTER thread blocks shares some 32-row blocks of the
// weight; each thread block takes 16 / CLUSTER slices of all those rows, each warp one slice of 16
// or 32 rows:
//   1. a warp asks for its first weights at once, straight into registers;
//   2. meanwhile one warp fetches x and the table by bulk copies, and the warps of a slice turn
//      its rotary columns in shared memory, just before they need them;
//   3. mma.sync over the slice, weights as the 16-row operand, tokens as the 8-column one;
//   4. the thread block adds its slices and sends one float per output to the token's owner in
//      the cluster, which adds what it gets, rounds to BF16, quantises and writes.
// All sums follow one balanced tree over the 16 slices: neither CLUSTER, nor T, nor the number of
// clusters changes a bit.
//
// What was measured on an H200: more weights in flight than the plans ask for makes x and the
// table wait behind them; each instruction on the way costs, so a launch takes its rows once and
// what exceeds the GPU waits as further clusters.

// Given by the build: GROUPS, RANK, K, HEAD_DIM, ROPE_DIM, and for each kernel its plan.
using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

constexpr int SLICES = 16;
constexpr int SLICE_K = K / SLICES;
constexpr int STEPS = SLICE_K / 32;  // of two mma.sync each
constexpr int BLOCK_ROWS = 32;       // of the weight: the columns that share one MXFP8 scale
constexpr int BLOCKS = RANK / BLOCK_ROWS;
constexpr int COLUMNS = GROUPS * RANK;
constexpr int SCALE_COLUMNS = (COLUMNS / 32 + 3) / 4 * 4;
// Rows of x lie an odd multiple of 64 bytes apart: eight lanes then read from all 32 banks.
__device__ constexpr int x_row(int columns) { return columns * 2 + (columns % 64 == 0 ? 64 : 0); }
constexpr int SUM_ROW = BLOCK_ROWS + 4;  // floats; likewise for the partial sums

static_assert(K % (SLICES * 32) == 0 && RANK % BLOCK_ROWS == 0 && ROPE_DIM % 4 == 0);

struct Arguments {
  const u16* x;           // BF16, row_stride elements from token to token
  const u16* weight;      // BF16 [GROUPS, RANK, K]
  const float* cos_sin;   // FP32 [table_rows, ROPE_DIM]
  const void* positions;  // INT32 or INT64 [tokens]
  u16* out;               // BF16 [tokens, COLUMNS], or null and:
  u8* q;                  // E4M3 [tokens, COLUMNS]
  u8* scales;             // UE8M0, 128x4 swizzle
  long long row_stride;
  long long table_rows;
  int tokens;
  int wide_positions;
  int blocks_each;  // of a group's 32-row blocks to each of its clusters
  int blocks_left;  // and one more to so many of them
};

__device__ __forceinline__ u32 shared_address(const void* pointer) {
  return static_cast<u32>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void barrier_init(u32 barrier) {
  asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ void barrier_expect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void barrier_wait(u32 barrier, u32 parity) {
  asm volatile(
      "{\n .reg .pred done;\n"
      "again:\n mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
      " @!done bra again;\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

__device__ __forceinline__ void bulk_copy(void* to, const void* from, u32 bytes, u32 barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

__device__ __forceinline__ u32 address_in(u32 address, u32 block) {
  u32 there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(block));
  return there;
}

__device__ __forceinline__ void send(u32 to, float4 v, u32 barrier) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, "
      "[%5];" ::"r"(to),
      "r"(__float_as_uint(v.x)), "r"(__float_as_uint(v.y)), "r"(__float_as_uint(v.z)),
      "r"(__float_as_uint(v.w)), "r"(barrier)
      : "memory");
}

// The clobber keeps the loads where they are written: ahead of barriers.
__device__ __forceinline__ uint4 stream(const u16* weight) {
  uint4 v;
  asm volatile("ld.global.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(weight)
               : "memory");
  return v;
}

__device__ __forceinline__ void mma(float (&c)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0,
                                    u32 b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

__device__ __forceinline__ u32 bf16_pair(float low, float high) {
  u32 pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

__device__ __forceinline__ float plus(float a, float b) { return __fadd_rn(a, b); }

__device__ __forceinline__ float4 plus(float4 a, float4 b) {
  return {plus(a.x, b.x), plus(a.y, b.y), plus(a.z, b.z), plus(a.w, b.w)};
}

// The sum of 2^n terms as a balanced tree.
template <int COUNT, class Term>
__device__ __forceinline__ auto tree(Term term, int first = 0) {
  if constexpr (COUNT == 1) {
    return term(first);
  } else {
    return plus(tree<COUNT / 2>(term, first), tree<COUNT / 2>(term, first + COUNT / 2));
  }
}

__device__ __forceinline__ long long position_of(const Arguments& a, int token) {
  long long wide;
  int narrow;
  if (a.wide_positions) {
    asm volatile("ld.global.b64 %0, [%1];"
                 : "=l"(wide) : "l"(static_cast<const long long*>(a.positions) + token) : "memory");
    return wide;
  }
  asm volatile("ld.global.b32 %0, [%1];"
               : "=r"(narrow) : "l"(static_cast<const int*>(a.positions) + token) : "memory");
  return narrow;
}

__device__ __forceinline__ int swizzled(int row, int column) {
  return column / 4 * 512 + row % 32 * 16 + row / 32 * 4 + column % 4;
}

// Where one token's 32 columns of a block go, one a lane.
struct Place {
  u16* out;
  u8* q;
  u8* scale;

  __device__ __forceinline__ Place(const Arguments& a, int token, int block, int lane) {
    const u32 at = static_cast<u32>(token * COLUMNS + block * 32 + lane);
    out = a.out == nullptr ? nullptr : a.out + at;
    q = a.q + at;
    scale = lane == 0 ? a.scales + swizzled(token, block) : nullptr;
  }

  // Round, quantise and write.
  __device__ __forceinline__ void finish(float sum) const {
    const u32 bits = bf16_pair(sum, 0.0f) & 0xFFFF;
    if (out != nullptr) {
      *out = static_cast<u16>(bits);
      return;
    }
    // Magnitudes of floats order as their bits do, NaN above Inf.
    const u32 amax = __reduce_max_sync(0xFFFFFFFF, bits & 0x7FFF);
    // 448 = 1.75 * 2^8: one binade less 8, and one more where the significand passes 1.75.
    int code = max(static_cast<int>((amax + 0x1F) >> 7) - 8, 0);
    if (amax >= 0x7F80) code = 255;
    const float inverse = __uint_as_float(static_cast<u32>(254 - code) << 23);
    const float scaled = __fmul_rn(__uint_as_float(bits << 16), inverse);
    u16 pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(scaled));
    *q = code == 255 ? 0x7F : static_cast<u8>(pair);
    if (scale != nullptr) *scale = static_cast<u8>(code);
  }
};

// Zero the scale bytes of rows without a token, and of columns past the last.
__device__ __forceinline__ void clear_padding(const Arguments& a, int first_block, int blocks,
                                              int thread, int threads) {
  if (a.scales == nullptr) return;
  const int end = first_block + blocks == GROUPS * BLOCKS ? SCALE_COLUMNS : first_block + blocks;
#pragma unroll 1
  for (int i = thread; i < (end - first_block) * 128; i += threads) {
    const int row = i % 128, column = first_block + i / 128;
    if (row >= a.tokens || column >= GROUPS * BLOCKS) a.scales[swizzled(row, column)] = 0;
  }
}

// OCTETS: tokens, in eights. MOST_BLOCKS: 32-row blocks that a cluster takes at most. TILES:
// 16-row tiles of a warp. FETCHERS: warps that do nothing but fetch x and the table, 0 or 1;
// without, the last warp does, which has no rows in most clusters. IN_FLIGHT: steps of weights
// that a warp asks for ahead.
template <int OCTETS, int CLUSTER, int MOST_BLOCKS, int TILES, int FETCHERS, int IN_FLIGHT,
          int SHARED_BYTES>
struct Kernel {
  static constexpr int TOKENS = OCTETS * 8;
  static constexpr int OWN_SLICES = SLICES / CLUSTER;
  static constexpr int ROW_GROUPS = MOST_BLOCKS * 2 / TILES;  // of TILES * 16 rows
  static constexpr int WORKERS = OWN_SLICES * ROW_GROUPS;
  static constexpr int WARPS = WORKERS + FETCHERS;
  static constexpr int DEPTH = IN_FLIGHT < STEPS ? IN_FLIGHT : STEPS;
  static constexpr int THREADS = WARPS * 32;
  static constexpr int OWNED = (TOKENS + CLUSTER - 1) / CLUSTER;
  static constexpr int SPAN = OWN_SLICES * SLICE_K;  // columns of x of one thread block
  static constexpr int PAIRS = ROPE_DIM / 2;
  // Where a slice ends with a head, only its last steps have to wait for the rotation.
  static constexpr int TURN_STEP =
      HEAD_DIM % SLICE_K == 0 && ROPE_DIM <= SLICE_K ? (SLICE_K - ROPE_DIM) / 32 : 0;
  static constexpr int X_ROW = x_row(SPAN);

  struct alignas(128) Shared {
    alignas(16) u8 x[TOKENS][X_ROW];
    alignas(16) float turns[TOKENS][ROPE_DIM];  // cosines and sines
    alignas(16) float sums[MOST_BLOCKS][OWN_SLICES][TOKENS * SUM_ROW];
    alignas(16) float inbox[MOST_BLOCKS][OWNED][CLUSTER][BLOCK_ROWS];
    u64 landed;    // x
    u64 fetched;   // the turns
    u64 received;  // into the inbox
  };
  static_assert(sizeof(Shared) == SHARED_BYTES);

  // One warp, a lane each token: its row of x.
  static __device__ __forceinline__ void fetch_x(const Arguments& a, Shared& shared, int lane,
                                                 int first) {
    const u32 landed = shared_address(&shared.landed);
    if (lane == 0) barrier_expect(landed, a.tokens * SPAN * 2);
    __syncwarp();
    if (lane < a.tokens) {
      bulk_copy(shared.x[lane], a.x + lane * a.row_stride + first, SPAN * 2, landed);
    }
  }

  // One warp, a lane each token: its row of the table, or NaN where it has none.
  static __device__ __forceinline__ void fetch_turns(const Arguments& a, Shared& shared, int lane,
                                                     long long position) {
    const u32 fetched = shared_address(&shared.fetched);
    const bool inside = static_cast<u64>(position) < static_cast<u64>(a.table_rows);
    if (lane < a.tokens && !inside) {
#pragma unroll 1
      for (int n = 0; n < ROPE_DIM; ++n) shared.turns[lane][n] = __uint_as_float(0x7FC00000);
    }
    const int rows = __popc(__ballot_sync(0xFFFFFFFF, inside));
    if (lane == 0) barrier_expect(fetched, rows * ROPE_DIM * 4);
    __syncwarp();
    if (inside) {
      bulk_copy(shared.turns[lane], a.cos_sin + position * ROPE_DIM, ROPE_DIM * 4, fetched);
    }
  }

  // Rotate back the rotary columns of a slice, by the `threads` that work on it. FP32 without FMA.
  static __device__ __forceinline__ void turn(const Arguments& a, Shared& shared, int slice,
                                              int own_slice, int thread, int threads) {
    const int begin = slice * SLICE_K, end = begin + SLICE_K;
    bool waited = false;
#pragma unroll 1
    for (int head = begin / HEAD_DIM; head * HEAD_DIM < end; ++head) {
      const int tail = (head + 1) * HEAD_DIM - ROPE_DIM;
      if (tail >= end || tail + ROPE_DIM <= begin) continue;
      if (!waited) barrier_wait(shared_address(&shared.fetched), 0);
      waited = true;
#pragma unroll 2
      for (int i = thread; i < a.tokens * PAIRS; i += threads) {
        const int token = i / PAIRS, pair = i % PAIRS, column = tail + 2 * pair;
        if (SLICE_K % HEAD_DIM != 0 && (column < begin || column >= end)) continue;
        u32* place = reinterpret_cast<u32*>(
            &shared.x[token][(own_slice * SLICE_K + column - begin) * 2]);
        const float re = __uint_as_float(*place << 16), im = __uint_as_float(*place & 0xFFFF0000);
        const float2 by = *reinterpret_cast<const float2*>(&shared.turns[token][2 * pair]);
        *place = bf16_pair(__fadd_rn(__fmul_rn(re, by.x), __fmul_rn(im, by.y)),
                           __fsub_rn(__fmul_rn(im, by.x), __fmul_rn(re, by.y)));
      }
    }
    if (waited) {
      asm volatile("bar.sync %0, %1;" ::"r"(own_slice + 1), "r"(threads) : "memory");
    }
  }

  static __device__ __forceinline__ void run(const Arguments& a) {
    extern __shared__ __align__(128) u8 raw[];
    Shared& shared = *reinterpret_cast<Shared*>(raw);
    const u32 thread = threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const u32 own_slice = warp % OWN_SLICES, row_group = warp / OWN_SLICES;
    const int group = blockIdx.y, share = blockIdx.x / CLUSTER;
    const u32 block_of_cluster = blockIdx.x % CLUSTER;
    const int first = block_of_cluster * SPAN;
    const u32 received = shared_address(&shared.received);

    // The clusters of a group share its blocks; the first few take one more.
    const int block = share * a.blocks_each + min(share, a.blocks_left);
    const int blocks = a.blocks_each + (share < a.blocks_left);
    const int at_once = row_group * TILES / 2;  // this warp's block among the cluster's
    const bool active = at_once < blocks;
    const u16* rows = a.weight +
                      static_cast<long long>(group * RANK + block * BLOCK_ROWS +
                                             row_group * TILES * 16 + lane / 4) * K +
                      first + own_slice * SLICE_K + lane % 4 * 8;
    uint4 upper[DEPTH][TILES], lower[DEPTH][TILES];
    auto ask = [&](int step) {
#pragma unroll
      for (int tile = 0; tile < TILES; ++tile) {
        upper[step % DEPTH][tile] = stream(rows + step * 32 + tile * 16 * K);
        lower[step % DEPTH][tile] = stream(rows + step * 32 + tile * 16 * K + 8 * K);
      }
    };
    long long position = -1;
    if (warp == WARPS - 1) {
      if (lane == 0) {
        barrier_init(shared_address(&shared.landed));
        barrier_init(shared_address(&shared.fetched));
        barrier_init(received);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
      }
      asm volatile("griddepcontrol.wait;" ::: "memory");
      if (lane < a.tokens) position = position_of(a, lane);
      fetch_x(a, shared, lane, group * K + first);
    }
    if (active) {
#pragma unroll
      for (int step = 0; step < DEPTH; ++step) ask(step);
    }
    __syncthreads();
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    asm volatile("griddepcontrol.wait;" ::: "memory");
    if (warp == WARPS - 1) fetch_turns(a, shared, lane, position);
    clear_padding(a, group * BLOCKS + block, blocks, block_of_cluster * THREADS + thread,
                  CLUSTER * THREADS);
    barrier_wait(shared_address(&shared.landed), 0);

    const u8* x = shared.x[lane / 4] + own_slice * SLICE_K * 2 + lane % 4 * 16;
    if (thread == 0) {
      const int owned = (a.tokens - static_cast<int>(block_of_cluster) + CLUSTER - 1) / CLUSTER;
      barrier_expect(received, blocks * max(owned, 0) * CLUSTER * BLOCK_ROWS * 4);
    }
    if (active) {
      float sums[OCTETS][TILES][4] = {};
#pragma unroll
      for (int step = 0; step < STEPS; ++step) {
        if (step == TURN_STEP) {
          turn(a, shared, first / SLICE_K + own_slice, own_slice, row_group * 32 + lane,
               blocks * 2 / TILES * 32);
        }
#pragma unroll
        for (int octet = 0; octet < OCTETS; ++octet) {
          const uint4 v = *reinterpret_cast<const uint4*>(x + octet * 8 * X_ROW + step * 64);
#pragma unroll
          for (int tile = 0; tile < TILES; ++tile) {
            const uint4 up = upper[step % DEPTH][tile], low = lower[step % DEPTH][tile];
            mma(sums[octet][tile], up.x, low.x, up.y, low.y, v.x, v.y);
            mma(sums[octet][tile], up.z, low.z, up.w, low.w, v.z, v.w);
          }
        }
        if (step + DEPTH < STEPS) ask(step + DEPTH);
      }
      float* to = shared.sums[at_once][own_slice] + row_group * TILES % 2 * 16 + lane / 4 +
                  lane % 4 * 2 * SUM_ROW;
#pragma unroll
      for (int octet = 0; octet < OCTETS; ++octet) {
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            to[(octet * 8 + i % 2) * SUM_ROW + tile * 16 + i / 2 * 8] = sums[octet][tile][i];
          }
        }
      }
    }

    // Those who send need their peers' barriers. Waiting earlier would wait for the weights too.
    if (warp * 4 < blocks * TOKENS) asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
    __syncthreads();
    // The slices' sum, four columns of a token a lane, goes to the token's owner.
#pragma unroll 1
    for (int i = warp * 4 + lane / 8; i < blocks * TOKENS; i += WARPS * 4) {
      const int at = i / TOKENS, token = i % TOKENS, owner = token % CLUSTER, column = lane % 8 * 4;
      if (token >= a.tokens) continue;
      const float4 sum = tree<OWN_SLICES>([&](int s) {
        return *reinterpret_cast<const float4*>(&shared.sums[at][s][token * SUM_ROW + column]);
      });
      const float* to = &shared.inbox[at][token / CLUSTER][block_of_cluster][column];
      send(address_in(shared_address(to), owner), sum, address_in(received, owner));
    }
    // The last warps first: the first ones have just been summing.
#pragma unroll 1
    for (int i = WARPS - 1 - warp; i < blocks * OWNED; i += WARPS) {
      const int at = i / OWNED, mine = i % OWNED, token = mine * CLUSTER + block_of_cluster;
      if (token >= a.tokens) continue;
      const Place place(a, token, group * BLOCKS + block + at, lane);
      barrier_wait(received, 0);
      place.finish(tree<CLUSTER>([&](int b) { return shared.inbox[at][mine][b][lane]; }));
    }
    // Peers may still be sending to a block that owns nothing else to wait for.
    if (warp == 0) barrier_wait(received, 0);
  }
};

#define ENTRY(TOKENS, ...)                                                         \
  extern "C" __global__ void __launch_bounds__(                                    \
      Kernel<TOKENS / 8, __VA_ARGS__>::THREADS, 1)                                 \
      wo_a_##TOKENS(const __grid_constant__ Arguments a) {                         \
    Kernel<TOKENS / 8, __VA_ARGS__>::run(a);                                       \
  }

ENTRY(8, PLAN_8)
ENTRY(16, PLAN_16)
ENTRY(24, PLAN_24)
ENTRY(32, PLAN_32)
