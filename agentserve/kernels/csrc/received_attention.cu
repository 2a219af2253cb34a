// Received attention over a paged cache of keys, in two passes (see triton/received_attention.py:
// the passes, the splits and what they leave to torch are the same).
//
// A block works on tiles of 16 rows x 64 keys. A row is a (query row, head of the group) pair, so
// that a key is read once for all heads that share it.
//
//   thread   0..63    64..127
//   key      0..63     0..63      its logits: one key, eight rows
//   rows     0..7      8..15
//
// The logits are plain float32 sums. Few rows against many keys are bound by reading the keys;
// tensor cores would not be busy.
#include <flashinfer/page.cuh>

#include "common.cuh"

namespace agentserve {
namespace {

using flashinfer::paged_kv_t;

constexpr int kRows = 16, kKeys = 64, kThreads = 128, kOwnRows = kRows * kKeys / kThreads;
// Up to 128 registers a thread: left to itself, ptxas saves registers and spills.
constexpr int kBlocksPerSm = 4;

struct Problem {
  const int32_t* row_indptr;     // [batch + 1]
  const int32_t* row_positions;  // [rows]
  int rows, kv_heads, group;
  float scale_log2;  // logits are in base 2
};

template <typename T, int kDim>
struct Tile {
  // A key's line is padded by 16 bytes: eight threads read eight lines from different banks.
  static constexpr int kLine = kDim + 16 / sizeof(T);
  alignas(16) T keys[kKeys][kLine];
  alignas(16) float rows[kRows][kDim];
  int last_seen[kRows];  // the last key a row sees; -1 past the last row
  int entry[kRows];      // where it is in [rows, q_heads]
};

template <typename T, int kDim>
__device__ void load_keys(Tile<T, kDim>& tile, const paged_kv_t<T, int32_t>& cache, int request,
                          int head, int first, int length) {
  constexpr int kVectors = kDim / 8;
  for (int i = threadIdx.x; i < kKeys * kVectors; i += kThreads) {
    const int key = first + i / kVectors, d = i % kVectors * 8;
    Eight<T> vector = zero_eight<T>();
    if (key < length) {
      uint32_t page, slot;
      cache.page_size.divmod(key, page, slot);
      vector = load_eight(cache.get_k_ptr(cache.indptr[request] + page, head, slot, d));
    }
    *reinterpret_cast<Eight<T>*>(&tile.keys[i / kVectors][d]) = vector;
  }
}

template <typename T, int kDim>
__device__ void load_rows(Tile<T, kDim>& tile, const Problem& problem, const T* q, int first_row,
                          int start, int count, int head) {
  constexpr int kVectors = kDim / 8;
  for (int i = threadIdx.x; i < kRows * kVectors; i += kThreads) {
    const int pair = start + i / kVectors, d = i % kVectors * 8;
    const int row = first_row + pair / problem.group;
    const int entry = (row * problem.kv_heads + head) * problem.group + pair % problem.group;
    const bool real = pair < count;
    const Eight<T> vector =
        real ? load_eight(q + static_cast<int64_t>(entry) * kDim + d) : zero_eight<T>();
#pragma unroll
    for (int j = 0; j < 8; ++j) tile.rows[i / kVectors][d + j] = widen(vector.element[j]);
    if (d == 0) {
      tile.last_seen[i / kVectors] = real ? problem.row_positions[row] : -1;
      tile.entry[i / kVectors] = entry;
    }
  }
}

// The logits of this thread's key and rows, in base 2; -infinity where a row does not see the key.
template <typename T, int kDim>
__device__ __forceinline__ void logits(const Tile<T, kDim>& tile, float scale_log2, int first,
                                       int length, float (&result)[kOwnRows]) {
  const int key = threadIdx.x % kKeys, own = threadIdx.x / kKeys * kOwnRows;
#pragma unroll
  for (int r = 0; r < kOwnRows; ++r) result[r] = 0.f;
#pragma unroll 2
  for (int d = 0; d < kDim; d += 8) {
    const Eight<T> k = load_eight(&tile.keys[key][d]);
#pragma unroll
    for (int r = 0; r < kOwnRows; ++r) {
      const Eight<float> q = load_eight(&tile.rows[own + r][d]);
#pragma unroll
      for (int j = 0; j < 8; ++j) result[r] += q.element[j] * widen(k.element[j]);
    }
  }
#pragma unroll
  for (int r = 0; r < kOwnRows; ++r) {
    const bool seen = first + key < length && first + key <= tile.last_seen[own + r];
    result[r] = seen ? result[r] * scale_log2 : kMinusInfinity;
  }
}

// Adds 2^other_top * other_total to 2^top * total. Tops may be -infinity, totals then are 0.
__device__ __forceinline__ void add_scaled(float& top, float& total, float other_top,
                                           float other_total) {
  const float new_top = fmaxf(top, other_top);
  const float base = new_top == kMinusInfinity ? 0.f : new_top;
  total = total * exp2f(top - base) + other_total * exp2f(other_top - base);
  top = new_top;
}

// parts[split, row, head] = log2 of the sum of 2^logit over one split of a request's keys.
template <typename T, int kDim>
__global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    normalisers(Problem problem, const T* q, paged_kv_t<T, int32_t> cache, float* parts) {
  __shared__ Tile<T, kDim> tile;
  __shared__ float tops[kRows][kKeys / kWarp], totals[kRows][kKeys / kWarp];
  const int split = blockIdx.x, head = blockIdx.y, request = blockIdx.z;
  const int length = cache.get_length(request);
  const int per_split = ceil_div(ceil_div(length, gridDim.x), kKeys) * kKeys;
  const int begin = split * per_split, end = min(begin + per_split, length);
  const int first_row = problem.row_indptr[request];
  const int count = (problem.row_indptr[request + 1] - first_row) * problem.group;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x % kKeys / kWarp;
  const int own = threadIdx.x / kKeys * kOwnRows;
  for (int start = 0; start < count; start += kRows) {
    __syncthreads();
    load_rows(tile, problem, q, first_row, start, count, head);
    float top[kOwnRows], total[kOwnRows];
#pragma unroll
    for (int r = 0; r < kOwnRows; ++r) top[r] = kMinusInfinity, total[r] = 0.f;
    for (int first = begin; first < end; first += kKeys) {
      __syncthreads();
      load_keys(tile, cache, request, head, first, length);
      __syncthreads();
      float logit[kOwnRows];
      logits(tile, problem.scale_log2, first, length, logit);
#pragma unroll
      for (int r = 0; r < kOwnRows; ++r) add_scaled(top[r], total[r], logit[r], 1.f);
    }
#pragma unroll
    for (int r = 0; r < kOwnRows; ++r) {
#pragma unroll
      for (int step = kWarp / 2; step > 0; step /= 2) {
        const float other_top = __shfl_xor_sync(~0u, top[r], step);
        const float other_total = __shfl_xor_sync(~0u, total[r], step);
        add_scaled(top[r], total[r], other_top, other_total);
      }
      if (lane == 0) tops[own + r][warp] = top[r], totals[own + r][warp] = total[r];
    }
    __syncthreads();
    if (threadIdx.x < kRows && tile.last_seen[threadIdx.x] >= 0) {
      float top_of_row = kMinusInfinity, total_of_row = 0.f;
      for (int i = 0; i < kKeys / kWarp; ++i) {
        add_scaled(top_of_row, total_of_row, tops[threadIdx.x][i], totals[threadIdx.x][i]);
      }
      const int64_t per_part = static_cast<int64_t>(problem.rows) * problem.kv_heads * problem.group;
      parts[split * per_part + tile.entry[threadIdx.x]] =
          total_of_row > 0.f ? top_of_row + log2f(total_of_row) : kMinusInfinity;
    }
  }
}

// scores[key] = head_weight / rows * the sum of 2^(logit - normaliser) over rows and heads.
template <typename T, int kDim>
__global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    columns(Problem problem, const T* q, paged_kv_t<T, int32_t> cache, const int32_t* kv_indptr,
            const float* normaliser, float head_weight, float* scores) {
  __shared__ Tile<T, kDim> tile;
  __shared__ float halves[kKeys];
  const int request = blockIdx.y;
  const int length = cache.get_length(request);
  const int first_row = problem.row_indptr[request];
  const int rows = problem.row_indptr[request + 1] - first_row, count = rows * problem.group;
  const int key = threadIdx.x % kKeys, own = threadIdx.x / kKeys * kOwnRows;
  for (int first = blockIdx.x * kKeys; first < length; first += gridDim.x * kKeys) {
    float total = 0.f;
    for (int head = 0; head < problem.kv_heads; ++head) {
      __syncthreads();
      load_keys(tile, cache, request, head, first, length);
      for (int start = 0; start < count; start += kRows) {
        __syncthreads();
        load_rows(tile, problem, q, first_row, start, count, head);
        __syncthreads();
        float logit[kOwnRows];
        logits(tile, problem.scale_log2, first, length, logit);
#pragma unroll
        for (int r = 0; r < kOwnRows; ++r) {
          if (tile.last_seen[own + r] >= 0) {
            total += exp2f(logit[r] - normaliser[tile.entry[own + r]]);
          }
        }
      }
    }
    if (threadIdx.x >= kKeys) halves[key] = total;
    __syncthreads();
    if (threadIdx.x < kKeys && first + key < length) {
      scores[kv_indptr[request] + first + key] =
          (total + halves[key]) * head_weight / max(rows, 1);
    }
  }
}

template <typename T>
paged_kv_t<T, int32_t> cache_of(TensorView k_cache, TensorView page_indptr, TensorView pages,
                                TensorView last_page_len) {
  // There is no V here: K stands in for it and is not read.
  return {static_cast<uint32_t>(k_cache.size(2)),
          static_cast<uint32_t>(k_cache.size(1)),
          static_cast<uint32_t>(k_cache.size(3)),
          static_cast<uint32_t>(last_page_len.size(0)),
          flashinfer::QKVLayout::kNHD,
          data<T>(k_cache),
          data<T>(k_cache),
          k_cache.strides().data(),
          data<int32_t>(pages),
          data<int32_t>(page_indptr),
          data<int32_t>(last_page_len)};
}

// Calls f with a type tag and a dim as a constant.
template <typename F>
void dispatch(TensorView q, F f) {
  DISPATCH_DLPACK_DTYPE_TO_CTYPE_FP32_FP16(q.dtype(), T, [&] {
    if (q.size(2) == 64) {
      f(T{}, std::integral_constant<int, 64>{});
    } else {
      TVM_FFI_ICHECK_EQ(q.size(2), 128) << "dim";
      f(T{}, std::integral_constant<int, 128>{});
    }
    return true;
  });
}

Problem problem_of(TensorView q, TensorView k_cache, TensorView row_indptr,
                   TensorView row_positions, double scale_log2) {
  const int kv_heads = k_cache.size(2), q_heads = q.size(1);
  return {data<int32_t>(row_indptr),   data<int32_t>(row_positions), static_cast<int>(q.size(0)),
          kv_heads, q_heads / kv_heads, static_cast<float>(scale_log2)};
}

}  // namespace

void attention_normalisers(TensorView q, TensorView k_cache, TensorView row_indptr,
                           TensorView row_positions, TensorView page_indptr, TensorView pages,
                           TensorView last_page_len, double scale_log2, TensorView parts) {
  ffi::CUDADeviceGuard guard(q.device().device_id);
  const Problem problem = problem_of(q, k_cache, row_indptr, row_positions, scale_log2);
  const dim3 grid(parts.size(0), k_cache.size(2), last_page_len.size(0));
  dispatch(q, [&](auto element, auto dim) {
    using T = decltype(element);
    normalisers<T, dim.value><<<grid, kThreads, 0, get_stream(q.device())>>>(
        problem, data<T>(q), cache_of<T>(k_cache, page_indptr, pages, last_page_len),
        data<float>(parts));
  });
  check_launch();
}

void attention_columns(TensorView q, TensorView k_cache, TensorView row_indptr,
                       TensorView row_positions, TensorView page_indptr, TensorView pages,
                       TensorView last_page_len, double scale_log2, TensorView kv_indptr,
                       TensorView normaliser, double head_weight, int64_t blocks,
                       TensorView scores) {
  ffi::CUDADeviceGuard guard(q.device().device_id);
  const Problem problem = problem_of(q, k_cache, row_indptr, row_positions, scale_log2);
  const dim3 grid(blocks, last_page_len.size(0));
  dispatch(q, [&](auto element, auto dim) {
    using T = decltype(element);
    columns<T, dim.value><<<grid, kThreads, 0, get_stream(q.device())>>>(
        problem, data<T>(q), cache_of<T>(k_cache, page_indptr, pages, last_page_len),
        data<int32_t>(kv_indptr), data<float>(normaliser), head_weight, data<float>(scores));
  });
  check_launch();
}

}  // namespace agentserve

TVM_FFI_DLL_EXPORT_TYPED_FUNC(attention_normalisers, agentserve::attention_normalisers);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(attention_columns, agentserve::attention_columns);
